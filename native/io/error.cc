#include "io/error.h"

#include <new>

namespace ffrfs {
namespace {

constexpr auto kNoThread =
    "cannot start a thread: all that are allowed are in use; raise the limit (ulimit -u, or "
    "TasksMax= of a service)";

bool is_no_thread(const std::system_error& error) {
  return error.code() == std::errc::resource_unavailable_try_again;
}

}  // namespace

NoThreadError::NoThreadError(std::string path)
    : StorageError(Exactly{EAGAIN}, std::move(path), kNoThread) {}

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
    if (!is_no_thread(known)) return {"RuntimeError", known.what()};
    // Comes from std::thread; what() names neither the call nor a limit.
    return {.kind = "OSError", .reason = kNoThread, .code = EAGAIN};
  } catch (const std::exception& unknown) {
    return {"RuntimeError", unknown.what()};
  }
}

bool is_shortage(const std::exception& error) {
  if (const auto* const refused = dynamic_cast<const StorageError*>(&error)) {
    const int code = refused->code();
    return code == EMFILE || code == ENFILE || code == ENOMEM || code == EAGAIN;
  }
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr) return is_no_thread(*system);
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
}

std::string text_within(const std::exception& error, const std::string& path) {
  const auto* const known = dynamic_cast<const Error*>(&error);
  return known != nullptr ? known->within(path) : error.what();
}

}  // namespace ffrfs
