// A process that may have no more descriptors.

#pragma once

#include <fcntl.h>
#include <sys/resource.h>

#include <cerrno>
#include <stdexcept>

#include "io/error.h"
#include "io/file_descriptor.h"

namespace ffrfs::test {

// While an object of this class exists, the process cannot get a new descriptor.
class NoDescriptors {
 public:
  NoDescriptors() {
    // UBSan needs a pipe to learn the type of an error's category.
    [[maybe_unused]] const StorageError known(EMFILE, "", "");
    const FileDescriptor lowest_free(::open("/", O_PATH | O_CLOEXEC));
    if (getrlimit(RLIMIT_NOFILE, &before_) != 0) throw std::runtime_error("getrlimit failed");
    set({.rlim_cur = static_cast<rlim_t>(lowest_free.get()), .rlim_max = before_.rlim_max});
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  static void set(const rlimit& limit) {
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) throw std::runtime_error("setrlimit failed");
  }

  rlimit before_{};
};

}  // namespace ffrfs::test
