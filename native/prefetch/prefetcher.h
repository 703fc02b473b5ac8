// Reads ahead of the readers: what hints say that they will read, and what they read in
// order. Everything here is advice; a demand read never depends on it.
//
//   hints (HintLists, one a client) ─┐   take: the next of each, within its window
//   runs in order (Readahead) ───────┴─► read: sorted, merged, verified (Fetcher)
//                                        push: into the kernel's page cache, if it knows
//                                              the inode; else held (UnitTable)
//
// What was pushed is read without a request, so once in a quarter of a window a record is held
// and not pushed: its READ shows how far the reader has come.
//
// Three threads of its own, so that two read, a half of kDepth records each, while one
// pushes. A push may wait in the kernel for a page that a READ holds: that READ finds its
// bytes in memory, and is answered by others. All else: any thread.
// One more watches the time: what is too old, and reads that wait for a batch of ours whose
// disk has stalled. Locks: ours, then the table's. Nobody waits with ours for an index that is far
// away (NearOnly): every READ takes it.

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
  size_t window_records = 512;  // 0: nothing is read ahead
  uint64_t window_bytes = uint64_t{64} << 20;
  std::chrono::milliseconds ttl{60'000};  // of what was read ahead and is not asked for
};

class Prefetcher {
 public:
  using ListId = HintLists::ListId;
  using Clock = std::chrono::steady_clock;

  // What is held or on its way is in the budget of `reader`.
  Prefetcher(const Tree& tree, bool has_files, DemandReader& reader,
             const PrefetchOptions& options, bool check_data, PushRecord push);
  ~Prefetcher();  // waits for what is being read
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  static constexpr size_t kListsMax = HintLists::kListsMax;
  static constexpr size_t kHintsMax = HintLists::kHintsMax;

  // Hints in the order in which one client will read. Throws std::length_error: too many.
  [[nodiscard]] ListId open_list();
  // How many more the list takes from now on; what is beyond is dropped. Never waits.
  size_t add(ListId list, std::span<const Hint> hints);
  [[nodiscard]] size_t room(ListId list) const;
  // No more will come. What was hinted stays until it was read, or expires.
  void finish(ListId list);
  // Its client has died.
  void drop(ListId list);
  // Calls it, from any thread and without a lock, when a list that was full has room.
  void on_room(std::function<void()> callback);

  // Neighbours of files that are read in no order: what the kernel knows, and may hold.
  [[nodiscard]] ReadAround& around() { return around_; }

  // Pushes all files at and below `ino` that the kernel knows, front to back. Never waits.
  void warm(Ino ino);

  // The budget has another limit: what is held beyond goes, oldest first.
  void follow_limit();

  // Begins nothing new; what is being read is not waited for.
  void stop();

  // A reader asks for the record. Any thread; cheap while there are no hints.
  void note_read(const Extent& extent, Found found);

 private:
  using Task = PrefetchTask;
  static constexpr size_t kDepth = 64;
  static constexpr size_t kThreads = 3;

  void join();
  void run();
  void wake_one();
  [[nodiscard]] std::optional<Ino> take_to_warm();
  void read_around(const Region& region);
  void watch();
  [[nodiscard]] bool has_work() const;
  [[nodiscard]] std::vector<Task> take_batch(std::vector<uint64_t>& coming);
  void take_hinted(ListId id, HintList& hints, std::vector<Task>& batch, size_t end);
  void take_in_order(std::vector<Task>& batch, size_t end);
  // kTaken: it is to be read. kBusy: it is being fetched, or held, or cannot be. kFull: there
  // is too much under way.
  enum class Claim { kTaken, kBusy, kFull };
  [[nodiscard]] Claim claim(Task& task);
  void push(std::vector<Task>& batch);
  void hand_over(Task& task, const std::exception_ptr& error);
  void note_freed();
  void drop_forgotten();
  void forget_left_out(Clock::time_point now);
  void expire(Clock::time_point now);
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
  bool has_freed_ = false;  // a list, since memory was given back to the system
  bool is_short_ = false;  // of memory, since what was left out was forgotten
  Clock::time_point forgotten_at_{};
  std::function<void()> on_room_;
  std::vector<std::thread> threads_;
};

}  // namespace ffrfs
