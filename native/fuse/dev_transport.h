// Receives requests by read(2) on the connection, on several threads; answers by writev(2).
//
// Used alone if the kernel has no rings, and beside them: FORGET, INTERRUPT and the first requests
// always come here.

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
#include "fuse/journal.h"
#include "fuse/receiver_limit.h"

namespace ffrfs::fuse {

class DevTransport final : public AnswerSink {
 public:
  // Both references must outlive this object, and so must the page of the journal.
  DevTransport(const Connection& connection, Handler& handler, const Journal& journal)
      : connection_(connection), handler_(handler), journal_(journal) {}

  // Waits for INIT and answers it. If another process has done that and has ended, continues for
  // it: the kernel gives out its requests again, or they fail if the kernel cannot. Returns nullopt
  // if the connection has ended, or the kernel is too old. Must be called before serve(), on one
  // thread.
  [[nodiscard]] std::optional<Agreement> shake_hands(const Wishes& wishes);

  // Serves on `thread_count` threads, including the caller's, until the connection ends or stop()
  // is called.
  void serve(size_t thread_count);

  // Ends serve() and shake_hands(). Must be repeated until they have returned, because a signal may
  // come just before a thread begins to wait. Thread-safe.
  void stop();

  void answer(const Reply& reply, int error, Parts parts) noexcept override;

 private:
  class Listed;  // registers a thread that stop() has to wake

  [[nodiscard]] std::optional<Agreement> wait_for_init(const Wishes& wishes);
  void answer_init(uint64_t unique) const;
  void receive();
  void take(std::span<const std::byte> message, std::span<std::byte> room);

  const Connection& connection_;
  Handler& handler_;
  Journal journal_;
  std::optional<Agreement> agreement_;
  ReceiverLimit receiver_limit_;
  std::atomic<bool> is_stopping_{false};
  std::mutex mutex_;  // guards receiving_
  std::vector<pthread_t> receiving_;
};

}  // namespace ffrfs::fuse
