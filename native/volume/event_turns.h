// Lets any number of threads wait for one event: one of them waits for it and polls, the others
// wait until it has. Each of them looks after every poll() whether what it waits for has come, so
// it does not matter whose poll() runs whose callback.
//
// Thread-safe. Does not survive fork() (see io/process_local.h).

#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>

namespace ffrfs {

class EventTurns {
 public:
  // The event that the threads share: wait() waits until poll() has something to do, or for
  // `timeout_ms`; poll() returns how many callbacks it has run; wake() ends a wait().
  struct Event {
    std::function<void(int timeout_ms)> wait;
    std::function<size_t()> poll;
    std::function<void()> wake;
  };
  explicit EventTurns(Event event) : event_(std::move(event)) {}

  // Returns when `is_ready`, which a poll() makes true, or when there was an event, or after
  // `timeout_ms` (-1: never).
  void wait(const std::function<bool()>& is_ready, int timeout_ms);

 private:
  [[nodiscard]] bool take(const std::function<bool()>& is_ready, int timeout_ms);

  const Event event_;
  std::mutex mutex_;
  std::condition_variable changed_;  // after a poll(), or when no thread waits for the event
  bool is_taken_ = false;            // a thread waits for the event
};

}  // namespace ffrfs
