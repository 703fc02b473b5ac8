// Counts the requests that were answered, and logs the slow ones, so that people find the file, the
// disk or the server that requests wait for.
//
// Counting never waits. The path of a slow request is in an index that may have to be read from the
// slow disk, so a pool thread looks it up; if many wait for that, further ones are only counted.
// Thread-safe.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "volume/volume.h"
#include "worker/far_requests.h"

namespace ffrfs {

class RequestLog {
 public:
  static constexpr size_t kWaitingMax = 64;

  // `far` lends the thread; its destructor must run before that of the log.
  RequestLog(Volume& volume, FarRequests& far) : volume_(volume), far_(far) {}

  // Notes that a request on `ino` was answered; 0: on no file or folder, which is only counted.
  void note(RequestKind kind, Ino ino, uint64_t elapsed_ns) noexcept {
    if (volume_.note_request(kind, elapsed_ns) && ino != 0) log_slow(kind, ino, elapsed_ns);
  }

 private:
  void log_slow(RequestKind kind, Ino ino, uint64_t elapsed_ns) noexcept;

  Volume& volume_;
  FarRequests& far_;
  std::atomic<size_t> waiting_{0};
};

}  // namespace ffrfs
