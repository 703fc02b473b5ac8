// Runs requests that need remote bytes (io/source.h): retries an attempt when the bytes have come.
// No thread waits meanwhile, however many requests there are.
//
//   run() ── the attempt answers ──────────────────────────────► done
//     └───── FarAway: bring it ──► the source's callback ──► a pool thread retries the attempt
//
// A request that needs several remote ranges is retried after each; after kAttemptsMax attempts, or
// if near bytes are damaged, a pool thread waits for the rest.
//
// Thread-safe.
// Not here: the answer to a caller that is interrupted (interrupts.h).

#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "fuse/reply.h"
#include "io/source.h"
#include "io/thread_pool.h"

namespace ffrfs {

class FarRequests {
 public:
  using Attempt = std::function<void(const fuse::Reply&)>;
  using Failed = std::function<void(const fuse::Reply&, const std::exception_ptr&)>;

  // attempt(reply) answers, or throws before it has answered. After FarAway it is retried; after
  // another exception failed(reply, error) answers. Both may be called later, on other threads;
  // `failed` must not throw.
  template <typename A, typename F>
  void run(const fuse::Reply& reply, const A& attempt, const F& failed) noexcept {
    try {
      const NearOnly here;
      attempt(reply);
    } catch (const FarAway& far) {
      try {
        bring(far, std::make_shared<const Job>(reply, attempt, failed), 1);
      } catch (...) {
        failed(reply, std::current_exception());
      }
    } catch (...) {
      failed(reply, std::current_exception());
    }
  }

  // Runs `task`, which must not throw, on a thread of the pool, one such task at a time.
  void run_aside(std::function<void()> task) {
    threads_.submit(std::move(task), ThreadPool::Urgency::kBackground);
  }

 private:
  static constexpr size_t kThreads = 8;
  // The most attempts that do not wait.
  static constexpr size_t kAttemptsMax = 256;

  struct Job {
    Job(const fuse::Reply& to, Attempt body, Failed on_failure)
        : reply(to), attempt(std::move(body)), failed(std::move(on_failure)) {}

    const fuse::Reply reply;
    const Attempt attempt;
    const Failed failed;
  };
  using JobPtr = std::shared_ptr<const Job>;

  void bring(const FarAway& far, const JobPtr& job, size_t attempts);
  void submit(const JobPtr& job, size_t attempts, const std::exception_ptr& error) noexcept;
  void go_on(const JobPtr& job, size_t attempts, const std::exception_ptr& error) noexcept;

  ThreadPool threads_{kThreads, 1};
};

}  // namespace ffrfs
