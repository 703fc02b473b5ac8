// Lets few threads at a time wait for a request.
//
// The kernel wakes those who wait for its requests in turn, so with many of them each
// request wakes the one that has slept longest, on a core that sleeps deepest: twice the
// time of a small file on four cores. With two, one is on its way back while the other
// waits. All the others sleep here, until no answer is waited for.
//
// Any thread.

#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace ffrfs {

class ReceiverLimit {
 public:
  // Returns when this thread may wait for a request. False: close() was called.
  [[nodiscard]] bool enter() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return waiting_ < kWaitingMax || closed_; });
    if (!closed_) ++waiting_;
    return !closed_;
  }

  // It has one, and will come back.
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--waiting_ == 0) room_.notify_one();
  }

  // Lets no thread in any more.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    room_.notify_all();
  }

 private:
  static constexpr size_t kWaitingMax = 2;

  std::mutex mutex_;
  std::condition_variable room_;
  size_t waiting_ = 0;
  bool closed_ = false;
};

}  // namespace ffrfs
