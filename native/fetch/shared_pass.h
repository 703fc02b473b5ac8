// Shares work on many items between the calling thread and its helpers: a free thread takes the
// next item. A helper that starts late finds no item left and touches nothing of the caller's.
//
// Owned by all threads that run it.

#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <utility>

namespace ffrfs {

class SharedPass {
 public:
  // Calls `work` once with each index below `count`, in this order, on any thread; it must not
  // throw.
  SharedPass(size_t count, std::function<void(size_t)> work)
      : count_(count), work_(std::move(work)) {}

  void run() {
    while (true) {
      const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) return;
      work_(index);
      if (finished_.fetch_add(1, std::memory_order_release) + 1 == count_) finished_.notify_all();
    }
  }

  // Blocks until all items are done.
  void wait() const {
    for (size_t count = finished_.load(std::memory_order_acquire); count < count_;
         count = finished_.load(std::memory_order_acquire)) {
      finished_.wait(count, std::memory_order_acquire);
    }
  }

 private:
  const size_t count_;
  const std::function<void(size_t)> work_;
  std::atomic<size_t> next_{0};
  std::atomic<size_t> finished_{0};
};

}  // namespace ffrfs
