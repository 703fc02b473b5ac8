// An object that fork() must not share: threads, AIO contexts, locks that another thread may hold
// at that moment. The child makes a new object when it first asks.

#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace ffrfs {

// Returns a number that changes in each fork()ed child, without a system call like getpid(2).
[[nodiscard]] inline uint64_t process_number() {
  static std::atomic<uint64_t> forks{0};
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  return forks.load(std::memory_order_relaxed);
}

template <typename T> class ProcessLocal {
 public:
  explicit ProcessLocal(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)) {}
  ProcessLocal(const ProcessLocal&) = delete;
  ProcessLocal& operator=(const ProcessLocal&) = delete;
  ~ProcessLocal() { clear(); }

  // Thread-safe. The child leaves the parent's object alone and never destroys it: its threads do
  // not exist there and its locks may be held for ever.
  [[nodiscard]] T& get() {
    Entry* current = entry_.load(std::memory_order_acquire);
    while (current == nullptr || current->process != process_number()) {
      auto fresh = std::make_unique<Entry>(Entry{process_number(), make_()});
      if (entry_.compare_exchange_strong(current, fresh.get(), std::memory_order_acq_rel)) {
        current = fresh.release();
      }
    }
    return *current->value;
  }

  // No other thread may be using the object.
  void clear() {
    Entry* current = entry_.exchange(nullptr);
    if (current != nullptr && current->process == process_number()) delete current;
  }

 private:
  struct Entry {
    uint64_t process;
    std::unique_ptr<T> value;
  };
  std::function<std::unique_ptr<T>()> make_;
  std::atomic<Entry*> entry_{nullptr};
};

}  // namespace ffrfs
