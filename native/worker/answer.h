// Answers a request: counts the time that it took, and turns exceptions into an errno.

#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "fuse/log.h"
#include "fuse/reply.h"
#include "volume/volume.h"

namespace ffrfs {

// Times one request. May be copied to the thread that answers it.
class RequestTimer {
 public:
  RequestTimer(Volume& volume, RequestKind kind, Ino ino)
      : volume_(volume), kind_(kind), ino_(ino) {}

  void stop() const {
    const std::chrono::nanoseconds elapsed = Clock::now() - begin_;
    volume_.note_request(kind_, ino_, static_cast<uint64_t>(elapsed.count()));
  }

 private:
  using Clock = std::chrono::steady_clock;

  Volume& volume_;
  const RequestKind kind_;
  const Ino ino_;
  const Clock::time_point begin_ = Clock::now();
};

// Runs `body`, which replies; if it throws, replies with an error.
template <typename Body>
void answer(const RequestTimer& timer, const fuse::Reply& reply, Body body) noexcept {
  try {
    body();
  } catch (const std::bad_alloc&) {
    reply.error(ENOMEM);
  } catch (const std::exception& error) {
    log_line(Priority::kError, std::string("request failed: ") + error.what());
    reply.error(EIO);
  }
  timer.stop();
}

}  // namespace ffrfs
