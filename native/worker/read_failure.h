// Translates a failure to read into the errno for the reader, and the reason for the log.

#pragma once

#include <cerrno>
#include <exception>
#include <string>

namespace ffrfs {

struct ReadFailure {
  int number = EIO;  // errno
  std::string reason;
};

[[nodiscard]] ReadFailure failure_of(const std::exception_ptr& error);

}  // namespace ffrfs
