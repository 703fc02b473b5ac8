#include "worker/trial.h"

#include <cerrno>
#include <new>
#include <utility>

#include "fuse/journal.h"

namespace ffrfs {
namespace {

uint64_t key_of(const fuse::Request& request) {
  return fuse::request_key(request.ino, static_cast<uint32_t>(request.opcode));
}

}  // namespace

void Trial::handle(const fuse::Request& request, const fuse::Reply& reply) noexcept {
  if (!is_suspect(request)) return handler_.handle(request, reply);
  fuse::Reply watched = reply.without_room();  // which is valid only until this returns
  try {
    watched = interrupts_.watch(watched);
    const std::lock_guard lock(mutex_);
    waiting_.push_back({.request = request, .reply = watched, .name = std::string(request.name)});
  } catch (const std::bad_alloc&) {
    return watched.error(ENOMEM);
  }
  go_on();
}

bool Trial::is_suspect(const fuse::Request& request) {
  const std::lock_guard lock(mutex_);
  return suspects_.contains(key_of(request));
}

void Trial::answer(const fuse::Reply& /*reply*/, int error, fuse::Parts parts) noexcept {
  std::optional<fuse::Reply> answered;
  {
    const std::lock_guard lock(mutex_);
    suspects_.erase(on_trial_.exchange(0));
    std::swap(answered, current_);
  }
  if (!answered) return;
  answered->answer(error, parts);
  go_on();
}

// A loop, because recursion could grow without limit: a handler may answer before it returns.
void Trial::go_on() noexcept {
  while (std::optional<Waiting> waiting = next()) {
    waiting->request.name = waiting->name;
    handler_.handle(waiting->request, waiting->reply);
    const std::lock_guard lock(mutex_);
    is_going_on_ = false;
  }
}

std::optional<Trial::Waiting> Trial::next() {
  const std::lock_guard lock(mutex_);
  while (!is_going_on_ && !current_ && !waiting_.empty()) {
    Waiting waiting = std::move(waiting_.front());
    waiting_.pop_front();
    const auto unanswered = interrupts_.unwatch(waiting.reply.unique());
    if (!unanswered) continue;  // it was interrupted
    waiting.reply = *unanswered;
    is_going_on_ = true;
    if (const uint64_t key = key_of(waiting.request); suspects_.contains(key)) {
      on_trial_ = key;
      current_ = std::exchange(waiting.reply, fuse::Reply(*this, waiting.reply.unique(), {}));
    }
    return waiting;
  }
  return std::nullopt;
}

}  // namespace ffrfs
