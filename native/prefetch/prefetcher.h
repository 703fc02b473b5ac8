// Reads ahead of the readers: records that hints announce, and records that follow a sequential
// run. All of it is advice; demand reads never depend on it.
//
//   hints (HintLists, one a client) ─┐   take: the next of each, within its window
//   runs in order (Readahead) ───────┴─► read: sorted, merged, verified (Fetcher)
//                                        push: into the kernel's page cache, if it knows
//                                              the inode; else held (UnitTable)
//
// Readers get pushed files without a request, so one record per quarter of a window is held and not
// pushed: its READ shows how far the reader is.
//
// Three threads, so that two read, half of kDepth records each, while one pushes. A push may wait
// in the kernel for a page that a READ has locked: other threads answer that READ, from memory. A
// fourth thread expires old units, and repeats reads that wait for a batch whose disk has stalled.
// All other functions are thread-safe. Lock order: this, then the table. Under this lock no thread
// waits for an index that is far (NearOnly), because every READ takes the lock. READs, hints and
// batches look their records up before they take it.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "fetch/demand_reader.h"
#include "fetch/unit_table.h"
#include "prefetch/far_files.h"
#include "prefetch/hint.h"
#include "prefetch/hint_lists.h"
#include "prefetch/prefetch_task.h"
#include "prefetch/read_around.h"
#include "prefetch/readahead.h"
#include "shard/shard_set.h"
#include "stats/counters.h"
#include "tree/tree.h"

namespace ffrfs {

struct PrefetchOptions {
  ReadAroundMode around = ReadAroundMode::kAuto;
  size_t window_records = 512;  // 0: no readahead
  uint64_t window_bytes = uint64_t{64} << 20;
  // How many records of a far pack are requested, for all lists, before they are taken. Each may
  // fill a block of the cache, which must not evict the block before the record is taken.
  size_t far_records = 65'536;
  std::chrono::milliseconds ttl{60'000};  // of units that were read ahead and not asked for
  std::chrono::milliseconds idle{30'000};  // of the list of an ended client, if memory is short
};

class Prefetcher {
 public:
  using ListId = HintLists::ListId;
  using Clock = std::chrono::steady_clock;

  // Held units and reads in flight are in the budget of `reader`.
  Prefetcher(const Tree& tree, bool has_files, DemandReader& reader, const PrefetchOptions& options,
             bool check_data, PushRecord push);
  ~Prefetcher();  // waits for reads in flight
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  static constexpr size_t kListsMax = HintLists::kListsMax;
  static constexpr size_t kHintsMax = HintLists::kHintsMax;

  // Opens a list for the hints of one client, in the order of its reads. Throws std::length_error
  // if there are too many.
  [[nodiscard]] ListId open_list();
  // Returns how many more hints the list takes from now on; hints beyond its room are dropped. May
  // wait for an index.
  size_t add(ListId list, std::span<const Hint> hints);
  // Returns nullopt if the list has expired.
  [[nodiscard]] std::optional<size_t> room(ListId list) const {
    const std::lock_guard lock(mutex_);
    return lists_.contains(list) ? std::optional(lists_.room(list)) : std::nullopt;
  }
  // Notes that the client sends no more hints; `has_more`: some that it has sent are still to be
  // added. The list stays until all was read, or it expires.
  void finish(ListId list, bool has_more = false);
  // Drops the list of a client that has died.
  void drop(ListId list);
  // Sets a callback, called on any thread and without a lock, when a full list has room again, or
  // a list has expired.
  void on_room(std::function<void()> callback);

  // Returns the readahead of neighbours, for files that are read in no order.
  [[nodiscard]] ReadAround& around() { return around_; }

  // Pushes all files at and below `ino` that the kernel knows, front to back. Never waits.
  void warm(Ino ino);

  // Called when the budget's limit has changed: drops held units beyond it, oldest first.
  void follow_limit();

  // Starts nothing new; does not wait for reads in flight.
  void stop();

  // Notes that a reader asks for the record. Thread-safe; cheap while there are no hints.
  void note_read(const Extent& extent, Found found);

 private:
  using Task = PrefetchTask;
  static constexpr size_t kDepth = 64;
  static constexpr size_t kBatchRecords = 32;

  void join();
  void run();
  [[nodiscard]] bool read_next();
  void warm_now(Ino top);
  void read_batch(std::vector<Task>& batch, std::span<const uint64_t> coming);
  void wake_one();
  [[nodiscard]] std::optional<Ino> take_to_warm();
  void read_around(const Region& region);
  void watch();
  void look_after(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool has_work() const;
  void look_up_coming(std::unique_lock<std::mutex>& lock) const;
  [[nodiscard]] std::vector<Task> take_batch(std::vector<uint64_t>& coming);
  void take_hinted(ListId id, HintList& hints, std::vector<Task>& batch, size_t end);
  void take_in_order(std::vector<Task>& batch, size_t end);
  // kTaken: the caller has to read it. kBusy: it is being fetched, held, or cannot be read. kFull:
  // the budget or the system has no room, or readers wait for it.
  enum class Claim { kTaken, kBusy, kFull };
  [[nodiscard]] Claim claim(Task& task);
  void push(std::vector<Task>& batch);
  void hand_over(Task& task, const std::exception_ptr& error);
  void note_freed();
  void drop_forgotten();
  bool forget_left_out(Clock::time_point now);
  bool expire(Clock::time_point now);
  void count_waste(const std::vector<UnitTable::Ahead>& dropped);

  DemandReader& reader_;
  Fetcher& fetcher_;
  UnitTable& table_;
  const ShardSet& shards_;
  Counters& counters_;
  const PrefetchOptions options_;
  const bool check_data_;
  const PushRecord push_;
  const FarFiles far_;
  const Tree& tree_;
  const bool has_files_;
  ReadAround around_;

  mutable std::mutex mutex_;  // guards all below but the threads and lists_.any()
  std::condition_variable work_;
  std::condition_variable watch_;
  HintLists lists_;
  std::deque<Ino> to_warm_;
  Readahead readahead_;
  size_t in_flight_ = 0;  // records
  size_t most_in_flight_ = 0;
  bool stopping_ = false;
  bool has_freed_ = false;  // lists were freed since memory was returned to the system
  bool is_short_ = false;  // memory was short since forget_left_out()
  Clock::time_point forgotten_at_{};
  std::function<void()> on_room_;
  std::vector<std::thread> threads_;
};

}  // namespace ffrfs
