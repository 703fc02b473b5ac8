#include "io/thread_pool.h"

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <utility>

namespace ffrfs {
namespace {

// A thread that takes no signals: they are for the program's own threads. But for those of
// its own faults, which would end the process if they were blocked (mapped_file.h).
std::thread start_quiet(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::move(body));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    tasks_.clear();
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::submit(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (tasks_.size() > idle_ && threads_.size() < thread_limit_) {
    try {
      threads_.push_back(start_quiet([this] { run(); }));
    } catch (const std::system_error&) {
      // No more threads to be had: those that run will get to it.
      if (threads_.empty()) {
        tasks_.pop_back();
        throw;
      }
    }
  }
  work_.notify_one();
}

void ThreadPool::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    work_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    --idle_;
    if (stopping_) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it holds is dropped without the lock
    lock.lock();
  }
}

}  // namespace ffrfs
