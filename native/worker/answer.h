// The answer of a request: the time that it took is counted, and what is thrown on the way
// becomes an errno.

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

// One request while it is worked on. May be copied to the thread that answers it.
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

// Runs `body`, which replies; if it throws, the reply is an error.
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
