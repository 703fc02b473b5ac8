// Lets Ctrl-C end a wait for a server or a disk: waits call check_wait() ten times a second.
//
// Thread-safe. Only a thread that runs Python's signal handlers is interrupted; threads that work
// for it end with it by WaitsUntil.

#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <utility>

namespace ffrfs {

constexpr auto kWaitCheckInterval = std::chrono::milliseconds(100);

// Ends a wait. No std::exception, so that it is not taken for the fault of a record.
struct Interrupted {
  std::exception_ptr cause{};
};

// Sets the check that ends waits by an exception: it throws Interrupted.
void set_wait_check(void (*check)());
// Throws Interrupted.
void check_wait();

// While this object lives, waits of its thread end once `is_ended` is true. May be nested.
class WaitsUntil {
 public:
  explicit WaitsUntil(const std::atomic<bool>& is_ended)
      : before_(std::exchange(is_ended_, &is_ended)) {}
  WaitsUntil(const WaitsUntil&) = delete;
  WaitsUntil& operator=(const WaitsUntil&) = delete;
  ~WaitsUntil() { is_ended_ = before_; }

 private:
  friend void check_wait();
  static inline thread_local const std::atomic<bool>* is_ended_ = nullptr;
  const std::atomic<bool>* const before_;
};

}  // namespace ffrfs
