// Blocks that were read ahead and that no reader has asked for yet, where the kernel could
// not be given their bytes. How many there may be is decided by who reads ahead
// (prefetcher.h); here they wait until they are taken, or too old.
//
// Any thread.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#include "volume/block.h"
#include "volume/counter_page.h"

namespace ffrfs {

class PrefetchedBlocks {
 public:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    BlockKey key;
    BlockPtr block;
    uint64_t owner = 0;  // for whom it was read
    Clock::time_point since;
  };

  // `size_bytes` is for others to look at.
  explicit PrefetchedBlocks(Counter& size_bytes) : size_bytes_(size_bytes) { size_bytes_ = 0; }

  // One that is there already is left alone.
  void put(Entry entry);
  // nullptr: not here. It is gone from here then.
  [[nodiscard]] BlockPtr take(const BlockKey& key);
  [[nodiscard]] bool contains(const BlockKey& key) const;
  [[nodiscard]] bool empty() const;

  // Drops all that came before `begin`, or all of one owner; what they were.
  [[nodiscard]] std::vector<Entry> expire(Clock::time_point begin);
  [[nodiscard]] std::vector<Entry> drop(uint64_t owner);
  // Drops the oldest until at most `limit_bytes` are left; what they were.
  [[nodiscard]] std::vector<Entry> shrink(size_t limit_bytes);
  // As if it had come at that time, before all others.
  void age(const BlockKey& key, Clock::time_point since);
  // The one of that key, if it is that owner's.
  [[nodiscard]] std::vector<Entry> drop(uint64_t owner, const BlockKey& key);

  // Of memory.
  [[nodiscard]] size_t size_bytes() const { return size_bytes_.load(std::memory_order_relaxed); }

 private:
  using Order = std::list<Entry>;  // oldest first

  void erase(Order::iterator entry);

  mutable std::mutex mutex_;
  Order order_;
  std::map<BlockKey, Order::iterator> entries_;
  Counter& size_bytes_;  // changed under the lock only
};

}  // namespace ffrfs
