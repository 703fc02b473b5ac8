#include "volume/event_turns.h"

#include <chrono>

namespace ffrfs {

// Returns whether the caller is the one that waits for the event now.
bool EventTurns::take(const std::function<bool()>& is_ready, int timeout_ms) {
  const auto is_over = [&] { return is_ready() || !is_taken_; };
  std::unique_lock lock(mutex_);
  if (timeout_ms < 0) {
    changed_.wait(lock, is_over);
  } else {
    changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), is_over);
  }
  if (is_taken_ || is_ready()) return false;
  is_taken_ = true;
  return true;
}

void EventTurns::wait(const std::function<bool()>& is_ready, int timeout_ms) {
  if (!take(is_ready, timeout_ms)) return;
  event_.wait(timeout_ms);
  {
    // From here on another one may wait, because the callbacks may take a while.
    const std::lock_guard lock(mutex_);
    is_taken_ = false;
  }
  const size_t ran = event_.poll();
  bool is_taken = false;
  {
    // A thread that looked before poll() and found nothing is waiting by now.
    const std::lock_guard lock(mutex_);
    is_taken = is_taken_;
  }
  // Its callback may have run here.
  if (is_taken && ran > 0) event_.wake();
  changed_.notify_all();
}

}  // namespace ffrfs
