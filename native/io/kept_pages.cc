#include "io/kept_pages.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace ffrfs {
namespace {

constexpr auto kTurnLimit = std::chrono::seconds(1);
constexpr auto kTurnPause = std::chrono::microseconds(100);

}  // namespace

class KeptPages::Turn {
 public:
  explicit Turn(Set& set)
      : set_(set), has_it_(!set.is_busy.exchange(true, std::memory_order_acquire)) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (has_it_) set_.is_busy.store(false, std::memory_order_release);
  }

  explicit operator bool() const { return has_it_; }

 private:
  Set& set_;
  const bool has_it_;
};

KeptPages& KeptPages::of_process() {
  static KeptPages& pages = *new KeptPages;
  return pages;
}

KeptPages::Set& KeptPages::set_of(const Key& key) {
  // Consecutive pages are in consecutive sets; the factor spreads the first pages of ranges.
  return sets_[(key.page + key.range * 0x9e3779b97f4a7c15) % sets_.size()];
}

bool KeptPages::copy(const Key& key, size_t offset, std::span<std::byte> target) {
  Set& set = set_of(key);
  const Turn turn(set);
  return turn && copy_from(set, key, offset, target);
}

bool KeptPages::copy_in_turn(const Key& key, size_t offset, std::span<std::byte> target) {
  Set& set = set_of(key);
  const auto end = std::chrono::steady_clock::now() + kTurnLimit;
  do {
    if (const Turn turn(set); turn) return copy_from(set, key, offset, target);
    std::this_thread::sleep_for(kTurnPause);
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

bool KeptPages::copy_from(Set& set, const Key& key, size_t offset, std::span<std::byte> target) {
  for (Slot& slot : set.slots) {
    if (slot.key != key) continue;
    slot.used = ++set.clock;
    std::memcpy(target.data(), slot.page->data() + offset, target.size());
    return true;
  }
  return false;
}

void KeptPages::keep(const Key& key, std::span<const std::byte> bytes) {
  Set& set = set_of(key);
  const Turn turn(set);
  if (!turn) return;
  // Another thread may have kept the page meanwhile.
  auto slot = std::ranges::find(set.slots, key, &Slot::key);
  if (slot == set.slots.end()) slot = std::ranges::min_element(set.slots, {}, &Slot::used);
  if (!slot->page) slot->page = std::make_unique<Page>();
  slot->key = key;
  slot->used = ++set.clock;
  std::ranges::copy(bytes, slot->page->begin());
}

}  // namespace ffrfs
