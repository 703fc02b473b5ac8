// Who answers: the other side of a transport.

#pragma once

#include "fuse/reply.h"
#include "fuse/request.h"

namespace ffrfs::fuse {

class Handler {
 public:
  // Answers now, or later on another thread. Never waits for a disk. Any thread, several at
  // once; what lies in `request` goes when this returns.
  virtual void handle(const Request& request, const Reply& reply) noexcept = 0;

  // Who asked for that is no longer sure to wait for the answer. As handle().
  virtual void interrupt(uint64_t /*unique*/) noexcept {}

 protected:
  ~Handler() = default;
};

}  // namespace ffrfs::fuse
