// Verified bytes of records: from the page cache, else from storage, then checked. All that
// reads records uses this one, on its queue, its buffers and its budget.
//
//   find_cached()   one unit, if the page cache holds it
//   start()         one unit from storage; the result comes in the port's poll()
//   read()          many records in one call: what the page cache holds by several threads,
//                   the rest through it, where the source reads ahead
//   load()          the same ahead of need; the rest in one pass of direct reads, sorted and
//                   merged by offset, which leave nothing in the page cache
//   read_cached()   raw bytes, for those who check as they go (record_stream.h, scrub/cached_run.h)
//
// Any thread. Does not survive fork() (see io/process_local.h).
// Not here: which units are held or under way (unit_table.h), waiting for one (demand_reader.h).

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "fetch/batch.h"
#include "fetch/budget.h"
#include "fetch/unit.h"
#include "io/buffer.h"
#include "io/read_queue.h"
#include "io/thread_pool.h"
#include "shard/shard_set.h"
#include "stats/counters.h"

namespace ffrfs {

class Fetcher {
 public:
  // Without a mount's limit: 256 MiB in flight, 32 MiB of spare buffers.
  static constexpr size_t kLimitDefault = size_t{512} << 20;

  Fetcher(const ShardSet& shards, Counters& counters, size_t limit_bytes = kLimitDefault);
  Fetcher(const Fetcher&) = delete;
  Fetcher& operator=(const Fetcher&) = delete;

  [[nodiscard]] const ShardSet& shards() const { return shards_; }
  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] Budget& budget() { return budget_; }
  [[nodiscard]] const Budget& budget() const { return budget_; }
  [[nodiscard]] BufferPool& buffers() { return buffers_; }
  [[nodiscard]] ReadQueue& queue() { return queue_; }

  // As Volume::limit_cache(): spare buffers beyond their share go at once. What is held is for
  // its owners to drop.
  void limit_cache(size_t limit_bytes);

  // A unit of `size` bytes that the caller fills.
  [[nodiscard]] UnitPtr make_unit(size_t size);

  // Fills `target` from `offset` of the extent's file, and `trailer` behind it, if the page
  // cache holds all of it; nothing is checked.
  [[nodiscard]] bool read_cached(const Extent& extent, uint64_t offset,
                                 std::span<std::byte> target, std::span<std::byte> trailer = {});

  // False: it takes storage. `target` has the unit's size. Throws ChecksumError.
  [[nodiscard]] bool find_cached(const UnitPlan& plan, std::span<std::byte> target);
  // The same into a unit of its own; nullptr: it takes storage.
  [[nodiscard]] UnitPtr find_cached(const UnitPlan& plan);

  // The memory that start() takes.
  [[nodiscard]] size_t memory_for(const UnitPlan& plan) const;
  // `memory` has that size. `done` is called in the port's poll().
  using UnitDone = std::function<void(UnitPtr, std::exception_ptr)>;
  void start(ReadPort& port, const UnitPlan& plan, Reservation memory, UnitDone done);

  // Whether bytes of it that do not match are to be had anew.
  [[nodiscard]] bool can_refetch(const Extent& extent) const {
    return shards_.file_of(extent).can_refetch();
  }

  // Fills every target, in no particular order; an item that fails has its `error`
  // set and the others are read all the same. `check`: verify checksums. Blocks.
  void read(std::span<BatchItem> items, bool check);
  // The same ahead of need: nothing waits for it, so demand reads come first. An item without
  // a target gets one; what comes from storage in one piece is not copied then.
  void load(std::span<BatchItem> items, bool check, const ItemDone& done);

 private:
  using Urgency = ReadPort::Urgency;

  // Of a unit's bytes, by what checks it: pass the previous result to go on.
  // Whether all that find_cached() reads is likely to be there.
  [[nodiscard]] bool is_cached(const UnitPlan& plan) const;
  [[nodiscard]] bool read_cached(const UnitPlan& plan, std::span<std::byte> target);
  [[nodiscard]] static uint32_t crc(const UnitPlan& plan, std::span<const std::byte> bytes,
                                    uint32_t seed = 0);
  // Throws ChecksumError unless that of all its bytes is `actual`.
  void check(const UnitPlan& plan, uint32_t actual, std::span<const std::byte> trailer);
  [[nodiscard]] bool read_cached_item(BatchItem& item, bool check) noexcept;
  [[nodiscard]] bool read_cached_run(std::span<BatchItem> run, bool check) noexcept;
  [[nodiscard]] bool check_item(BatchItem& item, bool check) noexcept;
  void submit(ReadPort& port, const UnitPlan& plan, std::shared_ptr<Unit> unit, UnitDone done,
              ReadPort::Bytes bytes);
  template <typename Work>
  void share(uint64_t total, size_t count, const Work& work);
  [[nodiscard]] std::vector<size_t> read_buffered(std::span<BatchItem> items,
                                                  std::vector<size_t> missing, bool check);
  [[nodiscard]] std::vector<size_t> read_cached_items(std::span<BatchItem> items, bool check);
  void read_storage(std::span<BatchItem> items, std::vector<size_t> missing, bool check,
                    const ItemDone& done, Urgency urgency);
  [[nodiscard]] std::unique_ptr<ReadPort> take_port(Urgency urgency);
  void return_port(std::unique_ptr<ReadPort> port, Urgency urgency);

  const ShardSet& shards_;
  Counters& counters_;
  Budget budget_;
  BufferPool buffers_;
  ReadQueue queue_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ReadPort>> idle_ports_;        // of read()
  std::vector<std::unique_ptr<ReadPort>> idle_batch_ports_;  // of load()
  std::atomic<bool> all_cached_{false};  // what the last read() asked for
  ThreadPool helpers_;  // of read()
};

}  // namespace ffrfs
