// Whole records into the caller's memory, many in one call: what the page cache
// holds by several threads at once, the rest in one queue of direct reads, sorted
// and merged by offset.
//
// Any number of threads may call read(); each call has a queue to itself. Survives
// fork(): the child makes its own threads and queues.

#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "io/buffer.h"
#include "io/process_local.h"
#include "io/read_queue.h"
#include "io/thread_pool.h"
#include "shard/extent.h"
#include "shard/shard_set.h"
#include "volume/counters.h"

namespace ffrfs {

struct BatchItem {
  Extent extent;
  std::span<std::byte> target;  // extent.size bytes; load() also takes one without
  std::exception_ptr error = nullptr;  // set by read(): StorageError or ChecksumError
  Buffer buffer{};  // set by load(): the memory of a target that it has made
  std::array<std::byte, Extent::kTrailerSizeMax> trailer_memory{};  // of read()

  void make_target(BufferPool& buffers) {
    buffer = buffers.acquire(static_cast<size_t>(extent.size));
    target = buffer.first(static_cast<size_t>(extent.size));
  }
  void drop_target() {
    buffer = {};
    target = {};
  }
  [[nodiscard]] std::span<std::byte> trailer() {
    return std::span(trailer_memory).first(extent.trailer_size());
  }
};

class BatchReader {
 public:
  static constexpr size_t kFreeBytesDefault = size_t{32} << 20;

  // `free_limit_bytes`: of buffers that wait to be used again.
  BatchReader(const ShardSet& shards, Counters& counters, size_t free_limit_bytes = kFreeBytesDefault);
  ~BatchReader();

  // Fills every target, in no particular order; an item that fails has its `error`
  // set and the others are read all the same. `check`: verify checksums. Blocks.
  void read(std::span<BatchItem> items, bool check);
  // The same ahead of need: nobody is served yet. An item without a target gets one; what
  // comes from storage in one piece is not copied then. `done` is told the place of each item as
  // soon as that is finished, on this thread or another; must not throw.
  using ItemDone = std::function<void(size_t index)>;
  void load(std::span<BatchItem> items, bool check, const ItemDone& done);

  // Changes how much of buffers may wait to be used again. Any thread.
  void limit_free(size_t limit_bytes);

 private:
  struct CachedPass;
  struct Runtime;  // what fork() must not share

  void call_helpers(const std::shared_ptr<CachedPass>& pass, size_t count);
  [[nodiscard]] std::vector<size_t> read_cached(std::span<BatchItem> items, bool check,
                                                const ItemDone& done);
  void read_storage(std::span<BatchItem> items, std::vector<size_t> missing, bool check,
                    const ItemDone& done);

  const ShardSet& shards_;
  Counters& counters_;
  ProcessLocal<Runtime> runtime_;
};

}  // namespace ffrfs
