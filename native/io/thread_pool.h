// A few threads for calls that block. They start when there is work that no idle
// thread takes, and live as long as the pool.
//
// Tasks must not throw. The destructor drops what has not begun and waits for what
// has; a pool does not survive fork() (see io/process_local.h).

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
  explicit ThreadPool(size_t thread_limit) : thread_limit_(thread_limit) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void submit(std::function<void()> task);

 private:
  void run();

  const size_t thread_limit_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace ffrfs
