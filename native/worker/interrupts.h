// Watches requests that wait for bytes while their callers may be interrupted: the kernel then
// sends INTERRUPT on /dev/fuse. If a request has no answer a second later, the reply is EINTR. Its
// read continues, and the later answer is dropped.
//
//   handler ── watch() ──► a reply that goes through here ──► the transport
//   kernel ─── interrupt() ── a second ──► expire(): EINTR ───┘   the first of both
//
// The reply does not come at once, because the kernel does not say whether the caller dies or has
// only caught a signal (from a timer, a profiler): no program expects EINTR from stat(2) or
// readdir(3) then.
//
// Thread-safe. The lock is held for a few instructions.

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

  // `on_due` is called, without the lock, when expire() will have work in kGrace; it must not wait.
  explicit Interrupts(std::function<void()> on_due) : on_due_(std::move(on_due)) {}

  // Returns the reply to use from now on instead of `reply`. Throws std::bad_alloc; then `reply`
  // remains in use.
  [[nodiscard]] fuse::Reply watch(const fuse::Reply& reply);
  // Stops watching a request that has no answer yet, so that watch() may be called for it again.
  // Returns the reply that was given to watch(); nullopt if it was used.
  [[nodiscard]] std::optional<fuse::Reply> unwatch(uint64_t unique);

  void interrupt(uint64_t unique) noexcept;

  // Answers the requests that are due by `now`. Returns when the next is due; nullopt if none is.
  std::optional<Clock::time_point> expire(Clock::time_point now) noexcept;

  // Called when the transports end: drops all later answers, and waits for those being sent.
  void close();

  void answer(const fuse::Reply& reply, int error, fuse::Parts parts) noexcept override;

 private:
  // An INTERRUPT may be received before its request is watched.
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
  size_t due_count_ = 0;  // how many of them were interrupted
  std::array<uint64_t, kEarlyCount> early_{};  // INTERRUPTs of unknown requests; 0: none
  size_t early_next_ = 0;
  size_t giving_ = 0;  // answers that are being sent
  bool is_closed_ = false;
};

}  // namespace ffrfs
