// Returns verified bytes of records, from the page cache or else from storage. All code that reads
// records shares one Fetcher, with its queue, its buffers and its budget.
//
//   find_cached()   one unit, if the page cache holds it
//   start()         one unit from storage; the result comes in the port's poll()
//   read()          many records in one call: cached ones are copied by several threads, the
//                   rest is read through the page cache, where the source reads ahead
//   load()          the same ahead of need; the rest is one pass of direct reads, sorted and
//                   merged by offset, which leave nothing in the page cache
//   read_cached()   raw bytes, for callers that verify them (record_stream.h, scrub/cached_run.h)
//
// Thread-safe. Does not survive fork() (see io/process_local.h).
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
  // The default outside a mount: 256 MiB in flight, 32 MiB of spare buffers.
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

  // The same as Volume::limit_cache(): spare buffers beyond their share are freed at once. Other
  // memory is for its owners to drop.
  void limit_cache(size_t limit_bytes);

  // Returns a unit of `size` bytes for the caller to fill.
  [[nodiscard]] UnitPtr make_unit(size_t size);

  // Fills `target` from `offset` of the extent's file, and `trailer` from the bytes after it, if
  // the page cache holds all of them; verifies nothing. Returns whether it did.
  [[nodiscard]] bool read_cached(const Extent& extent, uint64_t offset, std::span<std::byte> target,
                                 std::span<std::byte> trailer = {});

  // Returns false if the unit needs storage. `target` has the unit's size. Throws ChecksumError.
  [[nodiscard]] bool find_cached(const UnitPlan& plan, std::span<std::byte> target);
  // The same into a new unit. Returns nullptr if the unit needs storage.
  [[nodiscard]] UnitPtr find_cached(const UnitPlan& plan);

  // Returns how much memory start() takes.
  [[nodiscard]] size_t memory_for(const UnitPlan& plan) const;
  // `memory` holds memory_for(plan) bytes. `done` is called in the port's poll().
  using UnitDone = std::function<void(UnitPtr, std::exception_ptr)>;
  void start(ReadPort& port, const UnitPlan& plan, Reservation memory, UnitDone done);

  // Returns whether a damaged range of the extent can be fetched again from its origin.
  [[nodiscard]] bool can_refetch(const Extent& extent) const {
    return shards_.file_of(extent).can_refetch();
  }

  // Fills every target, in no particular order. If an item fails, its `error` is set and the others
  // are still read. `check`: verify checksums. Blocks.
  void read(std::span<BatchItem> items, bool check);
  // The same ahead of need: no reader waits, so demand reads go first. An item without a target
  // gets one; if it comes from storage in one piece, it is not copied.
  void load(std::span<BatchItem> items, bool check, const ItemDone& done);

 private:
  using Urgency = ReadPort::Urgency;

  // Returns whether the page cache probably holds all that find_cached() reads.
  [[nodiscard]] bool is_cached(const UnitPlan& plan) const;
  [[nodiscard]] bool read_cached(const UnitPlan& plan, std::span<std::byte> target);
  // Returns the checksum that the plan asks for; `seed` is the result for the bytes before.
  [[nodiscard]] static uint32_t crc(const UnitPlan& plan, std::span<const std::byte> bytes,
                                    uint32_t seed = 0);
  // Throws ChecksumError unless `actual`, the checksum of all bytes, is right.
  void check(const UnitPlan& plan, uint32_t actual, std::span<const std::byte> trailer);
  [[nodiscard]] bool read_cached_item(BatchItem& item, bool check) noexcept;
  [[nodiscard]] bool read_cached_run(std::span<BatchItem> run, bool check) noexcept;
  [[nodiscard]] bool check_item(BatchItem& item, bool check) noexcept;
  void submit(ReadPort& port, const UnitPlan& plan, std::shared_ptr<Unit> unit, UnitDone done,
              ReadPort::Bytes bytes);
  template <typename Work> void share(uint64_t total, size_t count, const Work& work);
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
  std::atomic<bool> all_cached_{false};  // whether the last read() found everything cached
  ThreadPool helpers_;  // of read()
};

}  // namespace ffrfs
