// Shares work on many items between the calling thread and its helpers: a free thread takes the
// next item. A helper that starts late finds no item left and touches nothing of the caller's.
//
// Owned by all threads that run it.

#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <utility>

#include "io/wait_check.h"

namespace ffrfs {

class SharedPass {
 public:
  // Calls `work` once with each index below `count`, in this order, on any thread. It throws nothing
  // but Interrupted, which ends the waits of all threads.
  SharedPass(size_t count, std::function<void(size_t)> work)
      : count_(count), work_(std::move(work)) {}

  void run() {
    while (true) {
      const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) return;
      try {
        const WaitsUntil guard(is_interrupted_);
        if (!is_interrupted_) work_(index);
      } catch (const Interrupted&) {
        interrupt();
      }
      if (finished_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) done_.set_value();
    }
  }

  // Blocks until all items are done. Throws Interrupted if some are not.
  void wait() {
    while (all_done_.wait_for(kWaitCheckInterval) != std::future_status::ready) {
      try {
        check_wait();
      } catch (const Interrupted&) {
        interrupt();
      }
    }
    // Taken out, because a helper may be the last owner of the pass, and must not destroy an error
    // of Python's: it would wait for the GIL, while its pool's owner waits for the helper.
    if (const auto why = std::exchange(why_, nullptr)) std::rethrow_exception(why);
  }

 private:
  void interrupt() {
    const std::lock_guard lock(mutex_);
    if (!why_) why_ = std::current_exception();
    is_interrupted_ = true;
  }

  const size_t count_;
  const std::function<void(size_t)> work_;
  std::atomic<size_t> next_{0};
  std::atomic<size_t> finished_{0};
  std::promise<void> done_;
  const std::future<void> all_done_ = done_.get_future();
  std::atomic<bool> is_interrupted_{false};
  std::mutex mutex_;
  std::exception_ptr why_;
};

}  // namespace ffrfs
