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
#include "worker/request_log.h"

namespace ffrfs {

// Times one request. May be copied to the thread that answers it.
class RequestTimer {
 public:
  RequestTimer(RequestLog& log, RequestKind kind, Ino ino) : log_(log), kind_(kind), ino_(ino) {}

  void stop() const {
    const std::chrono::nanoseconds elapsed = Clock::now() - begin_;
    log_.note(kind_, ino_, static_cast<uint64_t>(elapsed.count()));
  }

 private:
  using Clock = std::chrono::steady_clock;

  RequestLog& log_;
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
