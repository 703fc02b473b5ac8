#include "worker/request_log.h"

#include <chrono>
#include <exception>
#include <thread>

#include "fuse/log.h"

namespace ffrfs {
namespace {

constexpr auto kFinishLimit = std::chrono::seconds(2);
constexpr auto kFinishInterval = std::chrono::milliseconds(1);

}  // namespace

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

void RequestLog::log_failure(Ino counted, Ino ino, const std::string& reason) noexcept {
  const bool has_room = failures_waiting_ <= kFailuresWaitingMax;
  try {
    if (has_room) {
      return failure_thread_.submit([this, counted, ino, reason] {
        try {
          const NearOnly here;  // does not wait for a name that is far
          const std::string path = volume_.path(ino);
          ffrfs::log_failure(counted, path.empty() ? "/" : path, reason);
        } catch (const std::exception&) {  // out of memory: it is counted all the same
        }
        failures_waiting_.fetch_sub(1);
      });
    }
  } catch (const std::exception&) {  // out of memory, or of threads
  }
  failures_waiting_.fetch_sub(1);
  try {
    ffrfs::log_failure(counted, "inode " + std::to_string(ino), reason);
  } catch (const std::exception&) {  // out of memory
  }
}

void RequestLog::finish() const noexcept {
  const auto end = std::chrono::steady_clock::now() + kFinishLimit;
  while (failures_waiting_ > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kFinishInterval);
  }
}

}  // namespace ffrfs
