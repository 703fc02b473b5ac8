// Answers requests: the other side of a transport.

#pragma once

#include "fuse/reply.h"
#include "fuse/request.h"

namespace ffrfs::fuse {

class Handler {
 public:
  // Answers now, or later on another thread. Never waits for a disk. Called on any thread, several
  // at once; views in `request` are invalid after the return.
  virtual void handle(const Request& request, const Reply& reply) noexcept = 0;

  // Says that the caller of the request `unique` may no longer wait for it. Called as handle() is.
  virtual void interrupt(uint64_t /*unique*/) noexcept {}

 protected:
  ~Handler() = default;
};

}  // namespace ffrfs::fuse
