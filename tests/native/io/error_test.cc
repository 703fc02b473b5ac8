// native/io/error: the fields of an exception, from which it is rebuilt elsewhere.

#include <doctest/doctest.h>

#include <cerrno>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "io/error.h"

using namespace ffrfs;

namespace {

ErrorFields fields_by(int error_number) {
  const std::system_error error(error_number, std::generic_category());
  return fields_of(std::make_exception_ptr(error));
}

}  // namespace

TEST_CASE("the error for a thread that cannot be started names the limits to raise") {
  for (const ErrorFields& fields :
       {fields_by(EAGAIN), fields_of(std::make_exception_ptr(NoThreadError("x.ffr")))}) {
    CHECK(fields.kind == "OSError");
    CHECK(fields.code == EAGAIN);
    for (const std::string part : {"cannot start a thread", "ulimit -u", "TasksMax="}) {
      CHECK(fields.reason.find(part) != std::string::npos);
    }
  }
  CHECK(fields_by(EAGAIN).path.empty());
}

TEST_CASE("a lack of descriptors, memory or threads is blamed on no file") {
  CHECK(is_shortage(NoThreadError("x.ffr")));
  CHECK(is_shortage(StorageError(EMFILE, "x.ffr", "cannot open")));
  CHECK(is_shortage(std::bad_alloc()));
  CHECK(is_shortage(std::system_error(EAGAIN, std::generic_category())));
  CHECK_FALSE(is_shortage(StorageError(EIO, "x.ffr", "cannot read")));
  CHECK_FALSE(is_shortage(std::system_error(EPERM, std::generic_category())));
  CHECK_FALSE(is_shortage(FormatError("x.ffr", "is none")));
}

TEST_CASE("other errors of the system become RuntimeError, and keep their text") {
  const ErrorFields fields = fields_by(EPERM);
  CHECK(fields.kind == "RuntimeError");
  CHECK(fields.reason == "Operation not permitted");
  CHECK(fields.code == 0);
}
