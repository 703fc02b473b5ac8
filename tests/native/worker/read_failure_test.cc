// native/worker: the errno that a reader gets for a failure, and what the log says.

#include <doctest/doctest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>

#include "io/error.h"
#include "worker/read_failure.h"

using namespace ffrfs;

namespace {

template <typename Failure> ReadFailure failure_by(const Failure& error) {
  return failure_of(std::make_exception_ptr(error));
}

}  // namespace

TEST_CASE("errors of the system keep their errno") {
  for (const int number : {EIO, ESTALE, ENOTCONN, ETIMEDOUT}) {
    CHECK(failure_by(StorageError(number, "x.ffr", "cannot read")).number == number);
  }
}

TEST_CASE("EAGAIN, which programs take for no error, is EIO; the log has the system's reason") {
  const StorageError error(EAGAIN, "x.ffr", "cannot start a thread");
  const ReadFailure failure = failure_by(error);
  CHECK(failure.number == EIO);
  CHECK(failure.reason == error.what());
}

TEST_CASE("other failures have the errno of their kind") {
  CHECK(failure_by(TooLargeError("too large")).number == EFBIG);
  CHECK(failure_by(std::bad_alloc()).number == ENOMEM);
  CHECK(failure_by(ChecksumError("damaged")).number == EIO);
  CHECK(failure_by(std::runtime_error("unforeseen")).number == EIO);
}
