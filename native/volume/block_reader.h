// Verified blocks: from memory, from the page cache, or fetched from storage.
//
//   find()    memory ─► page cache ─► nullptr         never waits
//   fetch()   storage, one operation however many want the block ─► check ─► callbacks
//
// Any thread. Callbacks run in poll(). What is in flight and what is kept stay within
// the limit given; a fetch beyond it waits for its turn (one is always let through).

#pragma once

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
#include "record/shard_set.h"
#include "volume/block.h"
#include "volume/block_cache.h"
#include "volume/counters.h"

namespace ffrfs {

class BlockReader {
 public:
  using Done = std::function<void(BlockPtr, std::exception_ptr)>;

  BlockReader(const ShardSet& shards, Counters& counters, size_t limit_bytes);

  // nullptr: it takes storage. Throws ChecksumError.
  [[nodiscard]] BlockPtr find(const BlockPlan& plan);

  void fetch(const BlockPlan& plan, Done done);

  // `count` bytes of the block have been handed out; it is kept until all were.
  void served(const BlockPlan& plan, const BlockPtr& block, size_t count);

  // A block of `size` bytes that the caller fills: for slices over several blocks.
  [[nodiscard]] BlockPtr make_block(size_t size);

  void poll() { queue_.poll(); }
  void wait(int timeout_ms) const { queue_.wait(timeout_ms); }
  [[nodiscard]] ReadQueue& queue() { return queue_; }

 private:
  struct Fetch {
    BlockPlan plan;
    std::vector<Done> waiting;
  };

  void enter(const BlockPlan& plan);
  void start(const BlockPlan& plan);
  void finish(const BlockPlan& plan, RawBytes raw);
  void check(const BlockPlan& plan, std::span<const std::byte> bytes);

  const ShardSet& shards_;
  Counters& counters_;
  const size_t in_flight_limit_bytes_;
  BufferPool buffers_;
  BlockCache cache_;
  std::mutex mutex_;  // guards the four below
  std::map<BlockKey, Fetch> fetches_;
  std::deque<BlockPlan> backlog_;  // of fetches_ that have not been started
  size_t in_flight_bytes_ = 0;
  size_t in_flight_ = 0;
  ReadQueue queue_;
};

}  // namespace ffrfs
