// A few threads for calls that block. A thread starts when there is a task that no idle thread can
// take, and lives as long as the pool.
//
// Background tasks leave some threads free for the others, and run after them.
//
// Tasks must not throw. The destructor drops tasks that have not started and waits for those that
// have; a pool does not survive fork() (see io/process_local.h).

#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ffrfs {

class ThreadPool {
 public:
  // `background_limit`: the most threads that run background tasks at a time.
  explicit ThreadPool(size_t thread_limit) : ThreadPool(thread_limit, thread_limit) {}
  ThreadPool(size_t thread_limit, size_t background_limit)
      : thread_limit_(thread_limit), background_limit_(background_limit) {
    threads_.reserve(thread_limit);
  }
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  enum class Urgency { kSomeoneWaits, kBackground };
  void submit(std::function<void()> task, Urgency urgency = Urgency::kSomeoneWaits);

 private:
  using Tasks = std::deque<std::function<void()>>;

  void run();
  [[nodiscard]] size_t runnable_count() const;
  [[nodiscard]] Tasks& tasks(Urgency urgency) {
    return urgency == Urgency::kBackground ? background_ : tasks_;
  }

  const size_t thread_limit_;
  const size_t background_limit_;
  std::mutex mutex_;  // guards all below
  std::condition_variable work_;
  Tasks tasks_;
  Tasks background_;
  size_t background_running_ = 0;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace ffrfs
