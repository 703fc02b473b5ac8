#include "io/wait_check.h"

namespace ffrfs {
namespace {

std::atomic<void (*)()> wait_check{nullptr};

}  // namespace

void set_wait_check(void (*check)()) { wait_check = check; }

void check_wait() {
  const auto* const is_ended = WaitsUntil::is_ended_;
  if (is_ended != nullptr && *is_ended) throw Interrupted{};
  if (auto* const check = wait_check.load()) check();
}

}  // namespace ffrfs
