#include "fuse/journal.h"

#include <algorithm>
#include <cstring>

namespace ffrfs::fuse {

Journal::Journal(CounterPage& page)
    : resent_(page.row("requests_resent")),
      last_(page.row("last_unique")),
      init_(page.row("init", Init{}.size())),
      in_flight_(page.row("in_flight", 2 * kRequestCount)) {}

std::optional<Journal::Init> Journal::init() const {
  Init init{};
  std::ranges::copy(init_, init.begin());
  if (init[0] == 0) return std::nullopt;  // the protocol's version is never 0
  return init;
}

void Journal::keep_init(std::span<const std::byte> argument) {
  Init init{};
  std::memcpy(init.data(), argument.data(), std::min(argument.size(), sizeof init));
  // Stores the first word last: if it is set, so are the others.
  for (size_t i = init.size(); i-- > 0;) init_[i].store(init[i], std::memory_order_release);
}

Counter* Journal::begin(const InHeader& header) noexcept {
  if ((header.unique & kResent) != 0) ++resent_;
  last_.store(header.unique & ~kResent, std::memory_order_relaxed);
  // Each thread begins where it was last, so that threads do not share a cache line for long.
  thread_local size_t last = 0;
  for (size_t i = 0; i < kRequestCount; ++i) {
    const size_t place = (last + i) % kRequestCount;
    Counter& unique = in_flight_[2 * place];
    uint64_t none = 0;
    if (unique.load(std::memory_order_relaxed) == 0 &&
        unique.compare_exchange_strong(none, header.unique, std::memory_order_relaxed)) {
      last = place;
      in_flight_[2 * place + 1].store(request_key(header.nodeid, header.opcode),
                                      std::memory_order_relaxed);
      return &unique;
    }
  }
  return nullptr;
}

void Journal::end(Counter* place) noexcept {
  if (place == nullptr) return;
  std::span<Counter, 2> both(place, 2);
  both[1].store(0, std::memory_order_relaxed);
  both[0].store(0, std::memory_order_release);
}

void Journal::clear() { std::ranges::fill(in_flight_, 0); }

}  // namespace ffrfs::fuse
