// native/io/error: what becomes of an exception that is rebuilt elsewhere.

#include <doctest/doctest.h>

#include <cerrno>
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

TEST_CASE("a thread that cannot be started: what failed is named, and the limits to raise") {
  const ErrorFields fields = fields_by(EAGAIN);
  CHECK(fields.kind == "OSError");
  CHECK(fields.code == EAGAIN);
  CHECK(fields.path.empty());
  for (const std::string part : {"cannot start a thread", "ulimit -u", "TasksMax="}) {
    CHECK(fields.reason.find(part) != std::string::npos);
  }
}

TEST_CASE("other errors of the system are unforeseen, and keep their text") {
  const ErrorFields fields = fields_by(EPERM);
  CHECK(fields.kind == "RuntimeError");
  CHECK(fields.reason == "Operation not permitted");
  CHECK(fields.code == 0);
}
