// Requests by read(2) on the connection, by several threads; answers by writev(2).
//
// Runs on its own where the kernel offers no rings, and beside them: FORGET, INTERRUPT and the
// first requests always come here.

#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "fuse/connection.h"
#include "fuse/handler.h"
#include "fuse/handshake.h"
#include "fuse/receiver_limit.h"

namespace ffrfs::fuse {

class DevTransport final : public AnswerSink {
 public:
  // Both outlive this.
  DevTransport(const Connection& connection, Handler& handler)
      : connection_(connection), handler_(handler) {}

  // Waits for INIT and answers it. nullopt: the connection has ended, or the kernel is too old.
  // Before serve(), on one thread.
  [[nodiscard]] std::optional<Agreement> shake_hands(const Wishes& wishes);

  // Serves on `thread_count` threads, of which the caller's is one, until the connection ends
  // or stop() was called.
  void serve(size_t thread_count);

  // Ends serve() and shake_hands(), again and again until they have ended: a signal may come
  // just before a thread begins to wait. Any thread.
  void stop();

  void answer(const Reply& reply, int error, Parts parts) noexcept override;

 private:
  class Listed;  // a thread that stop() wakes

  void receive();
  void take(std::span<const std::byte> message, std::span<std::byte> room);

  const Connection& connection_;
  Handler& handler_;
  ReceiverLimit turnstile_;
  std::atomic<bool> is_stopping_{false};
  std::mutex mutex_;  // guards receiving_
  std::vector<pthread_t> receiving_;
};

}  // namespace ffrfs::fuse
