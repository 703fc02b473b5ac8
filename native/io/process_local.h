// Something that fork() must not share: threads, AIO contexts, locks that another
// thread may hold at that moment. The child gets a new one when it first asks.

#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace ffrfs {

// Another number in each child of a fork(): asking costs no system call, as getpid(2) does.
[[nodiscard]] inline uint64_t process_number() {
  static std::atomic<uint64_t> forks{0};
  [[maybe_unused]] static const int registered = pthread_atfork(
      nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  return forks.load(std::memory_order_relaxed);
}

template <typename T>
class ProcessLocal {
 public:
  explicit ProcessLocal(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)) {}
  ProcessLocal(const ProcessLocal&) = delete;
  ProcessLocal& operator=(const ProcessLocal&) = delete;
  ~ProcessLocal() { clear(); }

  // Any thread. The parent's object is left alone in the child, never destroyed
  // there: its threads do not exist and its locks may be held for ever.
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

  // No other thread may be using it.
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
