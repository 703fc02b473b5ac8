#include "worker/read_failure.h"

#include <new>

#include "io/error.h"

namespace ffrfs {

ReadFailure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const StorageError& refused) {
    // A program takes EAGAIN for "would block": Python's read() then returns None, and no error.
    return {refused.code() == EAGAIN ? EIO : refused.code(), refused.what()};
  } catch (const TooLargeError& refused) {
    return {EFBIG, refused.what()};
  } catch (const std::bad_alloc&) {
    return {ENOMEM, "out of memory"};
  } catch (const std::exception& bad) {
    return {EIO, bad.what()};
  }
}

}  // namespace ffrfs
