// Verified blocks: from memory, from the page cache, or fetched from storage.
//
//   find()    memory ─► page cache ─► nullptr         never waits
//   fetch()   storage, one operation however many want the block ─► check ─► callbacks
//   claim()   ... release(): somebody else reads and checks it, ahead of need; fetch()
//             waits for that one, too
//
// Any thread. Callbacks run in poll(). What is in flight and what is kept stay within
// the limit given; a fetch beyond it waits for its turn (one is always let through), and
// so does what others do with memory of that size (admit()). The limit may be lowered and
// raised at any time: what is kept shrinks at once, what is in flight as it comes.

#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "io/buffer.h"
#include "io/read_queue.h"
#include "shard/shard_set.h"
#include "volume/block.h"
#include "volume/block_cache.h"
#include "volume/counters.h"
#include "volume/prefetched_blocks.h"

namespace ffrfs {

class BlockReader {
 public:
  using Done = std::function<void(BlockPtr, std::exception_ptr)>;
  using Clock = std::chrono::steady_clock;

  BlockReader(const ShardSet& shards, Counters& counters, size_t limit_bytes);

  // nullptr: it takes storage. Throws ChecksumError.
  [[nodiscard]] BlockPtr find(const BlockPlan& plan);
  // The same of what is in memory.
  [[nodiscard]] BlockPtr find_in_memory(const BlockPlan& plan);

  void fetch(const BlockPlan& plan, Done done);

  // Is told of everything that find() was asked for, before find() returns. Set before
  // others use this; nullptr: nobody is.
  using Observer = std::function<void(const Extent& extent, Found found)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }

  // kTaken: the caller reads and checks the block, and ends with release(). kBusy: it is
  // being fetched, or held. kFull: there is too much under way.
  enum class Claim { kTaken, kBusy, kFull };
  [[nodiscard]] Claim claim(const BlockPlan& plan);
  // Reads by itself what others wait for and was claimed too long ago: whatever holds up
  // who has claimed it need not hold them up. fetch() does not wait for that either.
  void overtake();
  // True: somebody has waited, and gets it, or why there is none, in poll(); then it is
  // no longer among those read ahead.
  bool release(const BlockPlan& plan, const BlockPtr& block, const std::exception_ptr& error);
  // Read ahead; find() takes them.
  [[nodiscard]] PrefetchedBlocks& prefetched() { return prefetched_; }

  // The block is wanted again soon. Nothing happens if it is larger than
  // kept_block_limit_bytes().
  void keep(const BlockKey& key, const BlockPtr& block) { cache_.keep(key, block); }
  // The one that is kept, or nullptr.
  [[nodiscard]] BlockPtr find_kept(const BlockKey& key) { return cache_.find(key); }
  // It is probably not wanted any more.
  void mark_spent(const BlockKey& key) { cache_.mark_spent(key); }
  // `count` of the block's `size` bytes have been handed out; it is kept until all were.
  void served(const BlockKey& key, size_t size, const BlockPtr& block, size_t count);

  // Calls `start`, which must not throw, when `size` more bytes may be in flight: at once
  // or in poll(). leave() when they are no more.
  void admit(size_t size, std::function<void()> start);
  void leave(size_t size);
  // What may be asked of admit(), and the size of a block that can be kept: by the first limit.
  [[nodiscard]] size_t admission_limit_bytes() const { return admission_limit_bytes_; }
  [[nodiscard]] size_t kept_block_limit_bytes() const { return cache_.block_limit_bytes(); }

  // As Volume::limit_cache(), of what is held here but for prefetched().
  void limit_cache(size_t limit_bytes);

  // A block of `size` bytes that the caller fills: for slices over several blocks.
  [[nodiscard]] BlockPtr make_block(size_t size);

  void poll() { queue_.poll(); }
  void wait(int timeout_ms) const { queue_.wait(timeout_ms); }
  [[nodiscard]] ReadQueue& queue() { return queue_; }

 private:
  struct Fetch {
    BlockPlan plan;
    std::vector<Done> waiting{};
    bool is_claimed = false;
    Clock::time_point claimed_at{};
  };

  struct Waiting {
    size_t size;
    std::function<void()> start;
  };

  [[nodiscard]] static bool is_overdue(const Fetch& fetch);
  [[nodiscard]] bool enter(size_t size, size_t limit_bytes);
  [[nodiscard]] std::vector<std::function<void()>> take_admitted();
  [[nodiscard]] BlockPtr find_cached(const BlockPlan& plan);
  void observe(const BlockPlan& plan, Found found) const {
    if (observer_) observer_(plan.extent, found);
  }
  void start_in_turn(const BlockPlan& plan);
  void start(const BlockPlan& plan);
  void finish(const BlockPlan& plan, RawBytes raw);
  void check(const BlockPlan& plan, std::span<const std::byte> bytes,
             std::span<const std::byte> trailer);

  const ShardSet& shards_;
  Counters& counters_;
  const size_t admission_limit_bytes_;
  BufferPool buffers_;
  BlockCache cache_;
  PrefetchedBlocks prefetched_;
  Observer observer_;
  std::mutex mutex_;  // guards the five below
  size_t in_flight_limit_bytes_;
  std::map<BlockKey, Fetch> fetches_;
  std::deque<Waiting> backlog_;  // what has not been admitted
  size_t in_flight_bytes_ = 0;
  size_t in_flight_ = 0;
  ReadQueue queue_;
};

}  // namespace ffrfs
