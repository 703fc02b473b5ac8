#include "worker/request_log.h"

#include <exception>

#include "fuse/log.h"

namespace ffrfs {

void RequestLog::log_slow(RequestKind kind, Ino ino, uint64_t elapsed_ns) noexcept {
  if (waiting_.fetch_add(1) >= kWaitingMax) {
    waiting_.fetch_sub(1);
    return;
  }
  try {
    far_.run_aside([this, kind, ino, elapsed_ns] {
      try {
        log_line(Priority::kInfo, volume_.describe_slow(kind, ino, elapsed_ns));
      } catch (const std::exception&) {  // out of memory: it is counted all the same
      }
      waiting_.fetch_sub(1);
    });
  } catch (const std::exception&) {  // out of memory, or of threads
    waiting_.fetch_sub(1);
  }
}

}  // namespace ffrfs
