// Lets pushes through to the kernel until it is closed.
//
// A push may wait in the kernel for a page that a READ has locked. So pushes must end while READs
// are still answered: otherwise both would wait for ever, and the process with them.
//
// Thread-safe.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>

#include "tree/tree.h"

namespace ffrfs {

// Stores bytes of a file in the kernel's page cache. Returns false if it does not know the inode.
using PushPages = std::function<bool(Ino ino, uint64_t offset, std::span<const std::byte> bytes)>;

class PushGate {
 public:
  // Runs `push`, which must not throw. Returns false if the gate is closed, or if `push` does.
  template <typename Body> bool pass(Body push) {
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_) return false;
      ++inside_;
    }
    const bool is_taken = push();
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) empty_.notify_all();
    return is_taken;
  }

  // Lets no more pushes in, and waits at most `limit` for those inside. Returns false if one is
  // still inside.
  bool close(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    is_closed_ = true;
    return empty_.wait_for(lock, limit, [this] { return inside_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable empty_;
  size_t inside_ = 0;
  bool is_closed_ = false;
};

}  // namespace ffrfs
