// Requests that wait for bytes, while their callers may be interrupted: the kernel says so by
// INTERRUPT, on /dev/fuse. Those that have no answer a second later get EINTR. What was to be read
// is read all the same, and its answer is dropped.
//
//   handler ── watch() ──► a reply that goes through here ──► the transport
//   kernel ─── interrupt() ── a second ──► expire(): EINTR ───┘   the first of both
//
// Not at once, because the kernel does not say whether the caller dies or has only caught a signal
// (a timer's, a profiler's): then EINTR from stat(2) or readdir(3) is what no program expects.
//
// Any thread. The lock is held for a few instructions.

#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "fuse/reply.h"

namespace ffrfs {

class Interrupts final : public fuse::AnswerSink {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kGrace = std::chrono::seconds(1);

  // `on_due`: expire() has something to do in kGrace. Called without the lock; does not wait.
  explicit Interrupts(std::function<void()> on_due) : on_due_(std::move(on_due)) {}

  // The reply to use from now on in the place of `reply`. Throws std::bad_alloc; then it is still
  // `reply`.
  [[nodiscard]] fuse::Reply watch(const fuse::Reply& reply);

  void interrupt(uint64_t unique) noexcept;

  // Answers those whose time has come by `now`. When it comes for the next; nullopt: for none.
  std::optional<Clock::time_point> expire(Clock::time_point now) noexcept;

  // The transports end: from now on all answers are dropped. Waits for those on their way.
  void close();

  void answer(const fuse::Reply& reply, int error, fuse::Parts parts) noexcept override;

 private:
  // INTERRUPT may be received before its request is watched.
  static constexpr size_t kEarlyCount = 64;

  static constexpr Clock::time_point kNever = Clock::time_point::max();

  struct Waiting {
    fuse::Reply reply;
    Clock::time_point due;  // kNever: not interrupted
  };
  using Requests = std::unordered_map<uint64_t, Waiting>;

  [[nodiscard]] std::optional<fuse::Reply> take(uint64_t unique);
  [[nodiscard]] bool was_interrupted(uint64_t unique) const;
  void give(const fuse::Reply& reply, int error, fuse::Parts parts) noexcept;

  const std::function<void()> on_due_;
  std::mutex mutex_;  // guards all below
  std::condition_variable given_;
  Requests waiting_;
  size_t due_count_ = 0;  // of them, that were interrupted
  std::array<uint64_t, kEarlyCount> early_{};  // of what nothing was known; 0: none
  size_t early_next_ = 0;
  size_t giving_ = 0;  // answers on their way
  bool is_closed_ = false;
};

}  // namespace ffrfs
