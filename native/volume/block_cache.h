// Blocks of which a reader has taken only a part so far. The cache of a mount is the
// kernel's page cache; this one only bridges the requests that make up one file.
//
// Any thread. Least recently used goes first when the limit is reached, which may be lowered
// and raised meanwhile; the block that came last is kept however low it is. Of those that are
// spent, which are probably not asked for again, only the last two stay: their buffers are
// used again while the processor's caches hold them.

#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "volume/block.h"
#include "volume/counter_page.h"

namespace ffrfs {

class BlockCache {
 public:
  // `size_bytes` is for others to look at.
  BlockCache(size_t limit_bytes, Counter& size_bytes)
      : block_limit_bytes_(limit_bytes), limit_bytes_(limit_bytes), size_bytes_(size_bytes) {
    size_bytes_ = 0;
  }

  // nullptr: not here.
  [[nodiscard]] BlockPtr find(const BlockKey& key);
  void keep(const BlockKey& key, const BlockPtr& block);
  void drop(const BlockKey& key);
  void mark_spent(const BlockKey& key);
  // The first limit: of what can be kept at all.
  [[nodiscard]] size_t block_limit_bytes() const { return block_limit_bytes_; }
  // What is beyond is dropped.
  void set_limit(size_t limit_bytes);

 private:
  static constexpr size_t kSpentMax = 2;
  using Order = std::list<std::pair<BlockKey, BlockPtr>>;  // most recent first

  void erase(std::map<BlockKey, Order::iterator>::iterator entry);

  const size_t block_limit_bytes_;
  std::mutex mutex_;
  size_t limit_bytes_;
  Order order_;
  std::map<BlockKey, Order::iterator> entries_;
  std::deque<BlockKey> spent_;  // latest last; some of them may be gone
  Counter& size_bytes_;  // changed under the lock only
};

}  // namespace ffrfs
