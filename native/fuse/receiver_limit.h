// Limits how many threads wait for a request at a time.
//
// The kernel wakes waiting threads in turn, so with many of them each request wakes the one that
// has slept longest, on the core in the deepest sleep: twice the time of a small file on four
// cores. With two, one is on its way back while the other waits. All other threads sleep here,
// until no thread waits for a request.
//
// Thread-safe.

#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace ffrfs {

class ReceiverLimit {
 public:
  // Returns true when this thread may wait for a request; false after close().
  [[nodiscard]] bool enter() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return waiting_ < kWaitingMax || closed_; });
    if (!closed_) ++waiting_;
    return !closed_;
  }

  // Must be called once the thread has a request; it may enter() again later.
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--waiting_ == 0) room_.notify_one();
  }

  // Lets no more threads in.
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
