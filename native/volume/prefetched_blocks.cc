#include "volume/prefetched_blocks.h"

#include <utility>

namespace ffrfs {

void PrefetchedBlocks::put(Entry entry) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = entries_.try_emplace(entry.key);
  if (!is_new) return;
  size_bytes_ += entry.block->buffer.capacity();
  place->second = order_.insert(order_.end(), std::move(entry));
}

BlockPtr PrefetchedBlocks::take(const BlockKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  BlockPtr block = found->second->block;
  erase(found->second);
  return block;
}

bool PrefetchedBlocks::contains(const BlockKey& key) const {
  const std::lock_guard lock(mutex_);
  return entries_.contains(key);
}

bool PrefetchedBlocks::empty() const {
  const std::lock_guard lock(mutex_);
  return order_.empty();
}

std::vector<PrefetchedBlocks::Entry> PrefetchedBlocks::expire(Clock::time_point begin) {
  std::vector<Entry> dropped;
  const std::lock_guard lock(mutex_);
  while (!order_.empty() && order_.front().since < begin) {
    dropped.push_back(order_.front());
    erase(order_.begin());
  }
  return dropped;
}

std::vector<PrefetchedBlocks::Entry> PrefetchedBlocks::shrink(size_t limit_bytes) {
  std::vector<Entry> dropped;
  const std::lock_guard lock(mutex_);
  while (size_bytes_ > limit_bytes) {
    dropped.push_back(order_.front());
    erase(order_.begin());
  }
  return dropped;
}

std::vector<PrefetchedBlocks::Entry> PrefetchedBlocks::drop(uint64_t owner) {
  std::vector<Entry> dropped;
  const std::lock_guard lock(mutex_);
  for (auto entry = order_.begin(); entry != order_.end();) {
    const auto next = std::next(entry);
    if (entry->owner == owner) {
      dropped.push_back(*entry);
      erase(entry);
    }
    entry = next;
  }
  return dropped;
}

std::vector<PrefetchedBlocks::Entry> PrefetchedBlocks::drop(uint64_t owner, const BlockKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second->owner != owner) return {};
  std::vector<Entry> dropped{*found->second};
  erase(found->second);
  return dropped;
}

void PrefetchedBlocks::age(const BlockKey& key, Clock::time_point since) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  found->second->since = since;
  order_.splice(order_.begin(), order_, found->second);
}

void PrefetchedBlocks::erase(Order::iterator entry) {
  size_bytes_ -= entry->block->buffer.capacity();
  entries_.erase(entry->key);
  order_.erase(entry);
}

}  // namespace ffrfs
