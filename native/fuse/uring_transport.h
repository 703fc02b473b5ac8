// Serves requests over io_uring: the threads of a RingPlan, each with its ring.
//
// Threads and rings are created before the process gives up the right to create them (lockdown),
// and wait for start(). DevTransport handles the messages that do not come over rings.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "fuse/connection.h"
#include "fuse/handler.h"
#include "fuse/ring_plan.h"
#include "fuse/uring_queue.h"
#include "io/thread_pool.h"

namespace ffrfs::fuse {

class UringTransport {
 public:
  // `on_thread` runs first on each thread, once its ring exists. Throws StorageError.
  UringTransport(const RingPlan& plan, const std::function<void()>& on_thread);
  // Ends all threads.
  ~UringTransport();
  UringTransport(const UringTransport&) = delete;
  UringTransport& operator=(const UringTransport&) = delete;

  [[nodiscard]] const RingPlan& plan() const { return plan_; }

  // Must be called once, after the answer to INIT. Both must outlive this object.
  void start(const Connection& connection, Handler& handler);

  // Stops the threads; requests in hand stay unanswered. Thread-safe.
  void stop();

 private:
  class Thread;

  void run(Thread& thread, const std::function<void()>& on_thread);
  [[nodiscard]] bool wait_for_start();

  const RingPlan plan_;
  std::atomic<size_t> held_bytes_{0};
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool is_started_ = false;
  bool is_stopping_ = false;
  const Connection* connection_ = nullptr;
  Handler* handler_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  ThreadPool helpers_;  // for large READs
};

}  // namespace ffrfs::fuse
