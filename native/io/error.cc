#include "io/error.h"

#include <new>

namespace ffrfs {
namespace {

constexpr auto kNoThread =
    "cannot start a thread: all that are allowed are in use; raise the limit (ulimit -u, or "
    "TasksMax= of a service)";

}  // namespace

ErrorFields fields_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const StorageError& known) {
    return {known.kind(), known.reason(), known.path(), known.record(), known.code()};
  } catch (const Error& known) {
    return {known.kind(), known.reason(), known.path(), known.record()};
  } catch (const RangeError& known) {
    return {"IndexError", known.what()};
  } catch (const std::invalid_argument& known) {
    return {"ValueError", known.what()};
  } catch (const std::bad_alloc&) {
    return {"MemoryError", "out of memory"};
  } catch (const std::system_error& known) {
    if (known.code() != std::errc::resource_unavailable_try_again) {
      return {"RuntimeError", known.what()};
    }
    // Comes from std::thread; what() names neither the call nor a limit.
    return {.kind = "OSError", .reason = kNoThread, .code = EAGAIN};
  } catch (const std::exception& unknown) {
    return {"RuntimeError", unknown.what()};
  }
}

std::string text_within(const std::exception& error, const std::string& path) {
  const auto* const known = dynamic_cast<const Error*>(&error);
  return known != nullptr ? known->within(path) : error.what();
}

}  // namespace ffrfs
