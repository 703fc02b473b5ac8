#include "volume/block_cache.h"

namespace ffrfs {

BlockPtr BlockCache::find(const BlockKey& key) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return nullptr;
  order_.splice(order_.begin(), order_, entry->second);
  return entry->second->second;
}

void BlockCache::keep(const BlockKey& key, const BlockPtr& block) {
  const std::lock_guard lock(mutex_);
  if (entries_.contains(key) || block->buffer.capacity() > block_limit_bytes_) return;
  order_.emplace_front(key, block);
  entries_.emplace(key, order_.begin());
  size_bytes_ += block->buffer.capacity();
  while (size_bytes_ > limit_bytes_ && order_.size() > 1) {
    erase(entries_.find(order_.back().first));
  }
}

void BlockCache::set_limit(size_t limit_bytes) {
  const std::lock_guard lock(mutex_);
  limit_bytes_ = limit_bytes;
  while (size_bytes_ > limit_bytes_) erase(entries_.find(order_.back().first));
}

void BlockCache::drop(const BlockKey& key) {
  const std::lock_guard lock(mutex_);
  if (const auto entry = entries_.find(key); entry != entries_.end()) erase(entry);
}

void BlockCache::mark_spent(const BlockKey& key) {
  const std::lock_guard lock(mutex_);
  std::erase(spent_, key);
  spent_.push_back(key);
  if (spent_.size() <= kSpentMax) return;
  if (const auto entry = entries_.find(spent_.front()); entry != entries_.end()) erase(entry);
  spent_.pop_front();
}

void BlockCache::erase(std::map<BlockKey, Order::iterator>::iterator entry) {
  size_bytes_ -= entry->second->second->buffer.capacity();
  order_.erase(entry->second);
  entries_.erase(entry);
}

}  // namespace ffrfs
