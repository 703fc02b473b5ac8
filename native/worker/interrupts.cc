#include "worker/interrupts.h"

#include <algorithm>
#include <cerrno>

namespace ffrfs {

fuse::Reply Interrupts::watch(const fuse::Reply& reply) {
  bool is_early = false;
  {
    const std::lock_guard lock(mutex_);
    if (!is_closed_) {
      is_early = was_interrupted(reply.unique());
      const auto due = is_early ? Clock::now() + kGrace : kNever;
      if (waiting_.try_emplace(reply.unique(), Waiting{.reply = reply, .due = due}).second) {
        due_count_ += is_early ? 1 : 0;
      }
    }
  }
  if (is_early) on_due_();
  return {*this, reply.unique(), {}};
}

std::optional<fuse::Reply> Interrupts::unwatch(uint64_t unique) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(unique);
  if (found == waiting_.end()) return std::nullopt;
  const Waiting waiting = found->second;
  waiting_.erase(found);
  if (waiting.due != kNever) {
    --due_count_;
    early_[early_next_++ % kEarlyCount] = unique;  // for the next watch()
  }
  return waiting.reply;
}

bool Interrupts::was_interrupted(uint64_t unique) const {
  return std::ranges::find(early_, unique) != early_.end();
}

// Needs the lock. A caller that takes a reply must give() it.
std::optional<fuse::Reply> Interrupts::take(uint64_t unique) {
  const auto found = waiting_.find(unique);
  if (found == waiting_.end()) return std::nullopt;
  const fuse::Reply reply = found->second.reply;
  due_count_ -= found->second.due != kNever ? 1 : 0;
  waiting_.erase(found);
  ++giving_;
  return reply;
}

void Interrupts::give(const fuse::Reply& reply, int error, fuse::Parts parts) noexcept {
  reply.answer(error, parts);
  const std::lock_guard lock(mutex_);
  // Notified under the lock: once giving_ is 0, this object may be destroyed.
  if (--giving_ == 0 && is_closed_) given_.notify_all();
}

void Interrupts::interrupt(uint64_t unique) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(unique);
    if (found == waiting_.end()) {
      // The request was answered, or will be watched in a moment.
      early_[early_next_++ % kEarlyCount] = unique;
      return;
    }
    if (found->second.due != kNever) return;
    found->second.due = Clock::now() + kGrace;
    ++due_count_;
  }
  on_due_();
}

std::optional<Interrupts::Clock::time_point> Interrupts::expire(Clock::time_point now) noexcept {
  while (true) {
    std::optional<fuse::Reply> reply;
    {
      const std::lock_guard lock(mutex_);
      if (due_count_ == 0) return std::nullopt;
      const auto next = std::ranges::min_element(
          waiting_, {}, [](const Requests::value_type& each) { return each.second.due; });
      if (next->second.due > now) return next->second.due;
      reply = take(next->first);
    }
    give(*reply, EINTR, {});
  }
}

void Interrupts::close() {
  std::unique_lock lock(mutex_);
  is_closed_ = true;
  waiting_.clear();
  due_count_ = 0;
  given_.wait(lock, [this] { return giving_ == 0; });
}

void Interrupts::answer(const fuse::Reply& reply, int error, fuse::Parts parts) noexcept {
  std::optional<fuse::Reply> original;
  {
    const std::lock_guard lock(mutex_);
    original = take(reply.unique());
  }
  if (original) give(*original, error, parts);
}

}  // namespace ffrfs
