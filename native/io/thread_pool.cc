#include "io/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace ffrfs {
namespace {

// Starts a thread that blocks all signals, because they are for the program's own threads; except
// for those that its own faults raise, so that a program's handler can report them.
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
    background_.clear();
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// Needs the lock.
size_t ThreadPool::runnable_count() const {
  return tasks_.size() + std::min(background_.size(), background_limit_ - background_running_);
}

void ThreadPool::submit(std::function<void()> task, Urgency urgency) {
  const std::lock_guard lock(mutex_);
  tasks(urgency).push_back(std::move(task));
  if (runnable_count() > idle_ && threads_.size() < thread_limit_) {
    try {
      threads_.push_back(start_quiet([this] { run(); }));
    } catch (...) {
      // The system refuses more threads, or memory: the running ones will do the task.
      if (threads_.empty()) {
        tasks(urgency).pop_back();
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
    work_.wait(lock, [this] { return stopping_ || runnable_count() > 0; });
    --idle_;
    if (stopping_) return;
    const bool is_background = tasks_.empty();
    Tasks& from = is_background ? background_ : tasks_;
    std::function<void()> task = std::move(from.front());
    from.pop_front();
    if (is_background) ++background_running_;
    lock.unlock();
    task();
    task = nullptr;  // destroys the task's captures without the lock
    lock.lock();
    if (is_background) --background_running_;
  }
}

}  // namespace ffrfs
