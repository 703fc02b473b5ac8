// Reads ahead of the readers: what hints say that they will read, and what they read in
// order. Everything here is advice; a demand read never depends on it.
//
//   hints (HintList, one a client) ──┐   take: the next of each, within its window
//   runs in order (Readahead) ───────┴─► read: sorted, merged, verified (BatchReader)
//                                        push: into the kernel's page cache, if it knows
//                                              the inode; else held (PrefetchedBlocks)
//
// Who reads what was pushed asks nobody, so once in a quarter of a window a record is held
// and not pushed: its READ shows how far the reader has come.
//
// Three threads of its own, so that two read, a half of kDepth records each, while one
// pushes. A push may wait in the kernel for a page that a READ holds: that READ finds its
// bytes in memory, and is answered by others. All else: any thread.
// One more watches the time: what is too old, and reads that wait for a batch of ours whose
// disk has stalled. Locks: ours, then BlockReader's.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "shard/shard_set.h"
#include "tree/tree.h"
#include "volume/batch_reader.h"
#include "volume/block_reader.h"
#include "volume/counters.h"
#include "volume/hint.h"
#include "volume/hint_list.h"
#include "volume/readahead.h"

namespace ffrfs {

struct PrefetchOptions {
  size_t window_records = 512;  // 0: nothing is read ahead
  uint64_t window_bytes = uint64_t{64} << 20;
  std::chrono::milliseconds ttl{60'000};  // of what was read ahead and is not asked for
};

class Prefetcher {
 public:
  using ListId = uint64_t;
  using Clock = std::chrono::steady_clock;
  // Gives a file's bytes to the kernel, all that `block` holds of it. False: it does not
  // know the inode. On a thread of ours, without a lock; must not throw.
  using Push = std::function<bool(const Hint& hint, const BlockPtr& block)>;

  // At most `limit_bytes` are held or on their way; set_limit() changes it.
  Prefetcher(const ShardSet& shards, const Tree& tree, bool has_files, BlockReader& blocks,
             BatchReader& batches, Counters& counters, const PrefetchOptions& options,
             size_t limit_bytes, bool check_data, Push push);
  ~Prefetcher();  // waits for what is being read
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  static constexpr size_t kListsMax = 64;
  // In all lists together; beyond that each may have HintList::least_size().
  static constexpr size_t kHintsMax = 65'536;

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

  // Changes how much is held or on its way; what is held beyond goes, oldest first.
  void set_limit(size_t limit_bytes);

  // Begins nothing new; what is being read is not waited for.
  void stop();

  // A reader asks for the record. Any thread; cheap while nobody hints.
  void note_read(const Extent& extent, Found found);

 private:
  struct Client {
    HintList hints;
    Clock::time_point last_use;
    bool is_full = false;  // until on_room_ was called
  };
  struct Task {
    Hint hint;
    ListId owner = 0;    // a list, or a run of readahead
    uint64_t index = 0;  // in its list
    bool is_marker = false;
    BlockPlan plan{};
    size_t memory_bytes = 0;
    BlockPtr block = nullptr;
    bool is_finished = false;
    bool is_to_push = false;
  };
  static constexpr size_t kDepth = 64;
  static constexpr size_t kThreads = 3;

  void join();
  void run();
  void watch();
  [[nodiscard]] bool has_work() const;
  [[nodiscard]] size_t room_of(const HintList& hints) const;
  [[nodiscard]] std::vector<Task> take_batch();
  void take_hinted(ListId id, HintList& hints, std::vector<Task>& batch, size_t end);
  void take_in_order(std::vector<Task>& batch, size_t end);
  [[nodiscard]] bool has_room(size_t memory_bytes, const std::vector<Task>& batch) const;
  [[nodiscard]] size_t memory_for(const Extent& extent) const;
  [[nodiscard]] std::optional<Extent> find_extent(uint64_t record) const;
  [[nodiscard]] BlockReader::Claim claim(Task& task, const std::vector<Task>& batch);
  void read(std::vector<Task>& batch);
  void push(std::vector<Task>& batch);
  void hand_over(Task& task, const std::exception_ptr& error);
  [[nodiscard]] static bool is_run(const Task& task);
  [[nodiscard]] HintList::State state(const Task& task) const;
  void set_state(const Task& task, HintList::State state);
  std::map<ListId, Client>::iterator erase(std::map<ListId, Client>::iterator list);
  void forget_left_out(Clock::time_point now);
  void expire(Clock::time_point now);
  void settle(ListId id, HintList& hints);
  void count(const HintList::Tally& tally);
  void count_waste(const std::vector<PrefetchedBlocks::Entry>& dropped);

  const ShardSet& shards_;
  BlockReader& blocks_;
  BatchReader& batches_;
  Counters& counters_;
  const PrefetchOptions options_;
  const bool check_data_;
  const Push push_;

  mutable std::mutex mutex_;  // guards all below but the threads
  size_t limit_bytes_;
  std::condition_variable work_;
  std::condition_variable watch_;
  std::map<ListId, Client> lists_;
  std::atomic<size_t> list_count_{0};  // looked at without the lock
  ListId next_list_ = 1;
  ListId last_served_ = 0;
  Readahead readahead_;
  size_t in_flight_ = 0;  // records
  size_t in_flight_bytes_ = 0;  // of memory
  bool stopping_ = false;
  bool has_freed_ = false;  // a list, since memory was given back to the system
  bool is_short_ = false;  // of memory, since what was left out was forgotten
  Clock::time_point forgotten_at_{};
  std::function<void()> on_room_;
  std::vector<std::thread> threads_;
};

}  // namespace ffrfs
