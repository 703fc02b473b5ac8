#include "io/process_local.h"

#include <pthread.h>

namespace ffrfs {
namespace {

std::atomic<uint64_t> forks{0};

}  // namespace

uint64_t process_number() {
  [[maybe_unused]] static const int registered = pthread_atfork(
      nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  return forks.load(std::memory_order_relaxed);
}

}  // namespace ffrfs
