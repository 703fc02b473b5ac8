// Finds the request that ends a worker. The suspects are those that were in flight when workers
// before this one crashed; here they go to the handler one at a time, and the counter page has the
// one that it works on. So if this worker crashes as well, the daemon knows the cause.
//
//   transport ── handle() ── no suspect ─────────────────► handler
//                    └────── suspect: when no other is ──► handler ── answer() ──► transport
//
// After its answer a request is no suspect any more. A suspect that waits for its turn can be
// interrupted, and then gets no turn. Thread-safe.

#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fuse/handler.h"
#include "stats/counter_page.h"
#include "worker/interrupts.h"

namespace ffrfs {

class Trial final : public fuse::Handler, public fuse::AnswerSink {
 public:
  // `suspects`: fuse::request_key() of each. `interrupts`: the object that
  // handler.interrupt() informs. All arguments but `suspects` must outlive this object.
  Trial(fuse::Handler& handler, const std::vector<uint64_t>& suspects, Counter& on_trial,
        Interrupts& interrupts)
      : handler_(handler),
        on_trial_(on_trial),
        interrupts_(interrupts),
        suspects_(suspects.begin(), suspects.end()) {}

  void handle(const fuse::Request& request, const fuse::Reply& reply) noexcept override;
  void interrupt(uint64_t unique) noexcept override { handler_.interrupt(unique); }
  void answer(const fuse::Reply& reply, int error, fuse::Parts parts) noexcept override;

 private:
  struct Waiting {
    fuse::Request request;
    fuse::Reply reply;
    std::string name;  // of the request
  };

  [[nodiscard]] bool is_suspect(const fuse::Request& request);
  void go_on() noexcept;
  [[nodiscard]] std::optional<Waiting> next();

  fuse::Handler& handler_;
  Counter& on_trial_;
  Interrupts& interrupts_;
  std::mutex mutex_;  // guards all below
  std::set<uint64_t> suspects_;
  std::deque<Waiting> waiting_;
  std::optional<fuse::Reply> current_;  // of the suspect that the handler works on
  bool is_going_on_ = false;
};

}  // namespace ffrfs
