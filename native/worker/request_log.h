// Counts the requests that were answered, and logs the slow ones and those that failed, so that
// people find the file, the disk or the server that requests wait for.
//
// Counting never waits. The path of a request is in an index that may have to be read from the slow
// disk, so a pool thread looks it up; if many wait for that, further slow ones are only counted, and
// further failures are logged by inode. Failures have a thread of their own, because the paths of
// slow requests may be far.
// Thread-safe.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "io/thread_pool.h"
#include "volume/volume.h"
#include "worker/far_requests.h"

namespace ffrfs {

class RequestLog {
 public:
  static constexpr size_t kWaitingMax = 64;
  static constexpr size_t kFailuresWaitingMax = 1024;  // FailureLog remembers as many files

  // `far` lends the thread, and must be destroyed before the log.
  RequestLog(Volume& volume, FarRequests& far) : volume_(volume), far_(far) {}

  // Notes that a request on `ino` was answered; 0: on no file or directory, which is only counted.
  void note(RequestKind kind, Ino ino, uint64_t elapsed_ns) noexcept {
    if (volume_.note_request(kind, elapsed_ns) && ino != 0) log_slow(kind, ino, elapsed_ns);
  }

  // Must be called before a failure is answered that log_failure() is to log: finish() waits for it
  // from then on, as the mount may end before the thread that answers does anything else.
  void expect_failure() noexcept { failures_waiting_.fetch_add(1); }

  // Logs that a request on `ino` failed, which counts for the inode `counted`.
  void log_failure(Ino counted, Ino ino, const std::string& reason) noexcept;

  // Waits for failures that are not logged yet, since the process is about to end; two seconds at
  // most, because a name may be on a disk that hangs.
  void finish() const noexcept;

 private:
  void log_slow(RequestKind kind, Ino ino, uint64_t elapsed_ns) noexcept;

  Volume& volume_;
  FarRequests& far_;
  std::atomic<size_t> waiting_{0};
  std::atomic<size_t> failures_waiting_{0};
  ThreadPool failure_thread_{1};  // last, so that it ends before the members that it uses
};

}  // namespace ffrfs
