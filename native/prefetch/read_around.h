// Decides which regions of the packs are read as a whole, because their files are read in no order.
//
//   records   [ region 0, about 1 MiB ][ region 1 ][ ... ]     equal numbers of records
//   of each   known to the kernel? done: read, or pushed?      two bits
//
// One read of a region costs little more than one of a file, and a push costs less than a request.
// Both are lost unless the other files of the region are read too. The evidence is how densely the
// files around a READ have been read before: the number of pairs of READs in the same region.
// From kDensityMin on, the neighbours of every further READ are taken.
// READs in order are evidence where Readahead does not see them, in the page cache of the pack, and
// only once a quarter of a region was read: a run may end soon.
// After kTrialRegions the price of regions is known: how much slower READs from storage are while
// regions are read. On busy storage READs must be so dense that the regions make up for that.
// A few files of a region are left out as *controls*. The kernel does not say which pushed files
// were read, and the READs of the controls show their share. Two things show that taking neighbours
// was wrong: controls that get no READs while other files do, and READs of pushed files, which the
// kernel has evicted unread. Then nothing is taken for a while, and stronger evidence is needed.
// warm() takes all files of a part of the tree, and needs no evidence.
//
// Thread-safe; READs and lookups take no lock unless they make a region wanted.
// Not here: reading a region and pushing it (region_pass.h). Model and numbers: docs/decisions/036.

#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "prefetch/warming.h"
#include "stats/counters.h"

namespace ffrfs {

enum class ReadAroundMode : uint8_t { kOff, kAuto, kOn };  // kOn: without evidence

// Records [begin, end) of all shards.
struct Region {
  uint64_t begin = 0;
  uint64_t end = 0;
  // The files that warm() wants, also those of other regions; nullptr: the region was taken for the
  // neighbours of a READ.
  std::shared_ptr<const WarmedPart> warmed = nullptr;
  uint64_t warmed_count = 0;
  uint64_t left = 0;  // if it was taken for neighbours: files that were known and not done then
};

class ReadAround {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kRegionBytes = uint64_t{1} << 20;
  static constexpr uint64_t kRegionRecordsMin = 4;  // larger files gain nothing
  static constexpr uint64_t kRegionRecordsMax = 1024;
  static constexpr uint64_t kControlShare = 64;  // one in this many files is left out
  static constexpr double kDensityMin = 0.02;
  static constexpr uint64_t kPairsMin = 16;
  static constexpr size_t kThreads = 3;  // that read regions
  static constexpr uint64_t kTrialRegions = 8;
  static constexpr double kRestShare = 0.5;
  static constexpr uint64_t kGrowth = 64;  // records pushed beside each READ, at most

  struct Amounts {
    uint64_t records = 0;
    uint64_t bytes = 0;
    uint64_t files = 0;  // more than records: some share a record
  };
  // `now`: the time, which a test may decide.
  ReadAround(const Amounts& amounts, ReadAroundMode mode, Counters& counters,
             Clock::time_point (*now)() = Clock::now);

  // Limits the bytes that are in memory ahead of readers: pushed and, as the controls show, not
  // read yet.
  void set_budget(uint64_t bytes) { budget_.store(bytes / mean_size_, std::memory_order_relaxed); }

  // Notes that the kernel has looked up the record's file, and so knows its inode.
  void note_known(uint64_t record);
  // Notes a READ of a record that the caller did not hold; `is_cached`: it was in the page cache of
  // the pack. Returns true if a region is wanted now.
  bool note_read(uint64_t record, bool is_cached);

  // Notes that a READ waited for the bytes of a record, which storage gave.
  void note_stored(uint64_t bytes, Clock::duration waited) {
    const bool is_alone = reading_.load(std::memory_order_relaxed) == 0;
    (is_alone ? alone_rate_ : beside_rate_).add(bytes, waited);
  }

  // Takes the regions of these files, front to back, as far as the budget allows.
  void warm(WarmedPart part);
  // Waits until no other thread has the turn to read for warm() without room in memory. No READ
  // waits for it.
  [[nodiscard]] std::unique_lock<std::mutex> take_turn() { return std::unique_lock(turn_); }

  [[nodiscard]] bool has_work() const { return queued_.load(std::memory_order_relaxed) > 0; }
  [[nodiscard]] std::optional<Region> take();

  // Takes up to `count` regions that had no READ, once kRestShare of all regions had READs, in no
  // order. They are requested if a pack is remote: at most twice as many bytes as READs need.
  [[nodiscard]] std::vector<Region> take_rest(size_t count);

  // Returns whether a record of a region that was taken is to be pushed: the kernel knows its
  // inode, no READ has come for it, and it is no control.
  [[nodiscard]] bool is_to_push(uint64_t record) const {
    return has(known_, record) && !has(done_, record) && !is_control(record);
  }
  // Returns the same for warm(), which pushes all records: the kernel may have evicted those that
  // were read or pushed.
  [[nodiscard]] bool is_to_warm(uint64_t record) const { return has(known_, record); }
  [[nodiscard]] bool is_done(uint64_t record) const { return has(done_, record); }
  void note_pushed(uint64_t record) { set(done_, record); }
  // Notes that the kernel has forgotten the inode of the record's file.
  void note_unknown(uint64_t record) { clear(known_, record); }
  // Counts what became of a region, in records.
  struct Outcome {
    uint64_t pushed = 0;
    uint64_t unknown = 0;  // in the page cache of the pack; the kernel does not know their inodes
    uint64_t read_bytes = 0;  // of the pack
    bool is_cut = false;  // there was no room in memory for some of it, or it was far
    Clock::duration elapsed{};
  };
  void finish(const Region& region, const Outcome& outcome);

 private:
  using Words = std::unique_ptr<std::atomic<uint64_t>[]>;
  struct Place {  // a region
    std::atomic<uint16_t> reads{0};
    std::atomic<uint16_t> last{0};  // the record read last, within the region
    std::atomic<uint16_t> left{0};  // known and not done since it was taken
    std::atomic<bool> is_queued{false};
    std::atomic<bool> is_around{false};  // has been taken
    std::atomic<bool> is_looked{false};  // or all of it was in the page cache
  };

  // Bytes a second of one operation after the other, mostly of the last kWeight.
  class Rate {
   public:
    void add(uint64_t bytes, Clock::duration elapsed) {
      mix(bytes_, bytes);
      mix(ns_, static_cast<uint64_t>(std::chrono::nanoseconds(elapsed).count()));
      count_.fetch_add(1, std::memory_order_relaxed);
    }
    [[nodiscard]] uint64_t count() const { return count_.load(std::memory_order_relaxed); }
    [[nodiscard]] double bytes_per_ns() const {
      const auto ns = static_cast<double>(ns_.load(std::memory_order_relaxed));
      return static_cast<double>(bytes_.load(std::memory_order_relaxed)) / std::max(ns, 1.0);
    }
    void reset() { bytes_ = ns_ = count_ = 0; }

   private:
    static constexpr uint64_t kWeight = 64;
    static void mix(std::atomic<uint64_t>& sum, uint64_t value) {
      sum.fetch_add(value - sum.load(std::memory_order_relaxed) / kWeight,
                    std::memory_order_relaxed);
    }
    std::atomic<uint64_t> bytes_{0};  // kWeight times the mean, in the long run
    std::atomic<uint64_t> ns_{0};
    std::atomic<uint64_t> count_{0};
  };

  [[nodiscard]] static bool is_control(uint64_t record) {
    return (record * 0x9e3779b97f4a7c15 >> 32) % kControlShare == 0;
  }
  [[nodiscard]] static bool has(const Words& words, uint64_t record) {
    return (words[record / 64].load(std::memory_order_relaxed) >> record % 64 & 1) != 0;
  }
  // Returns whether the bit was set before.
  static bool set(const Words& words, uint64_t record) {
    const uint64_t bit = uint64_t{1} << record % 64;
    std::atomic<uint64_t>& word = words[record / 64];
    if ((word.load(std::memory_order_relaxed) & bit) != 0) return true;
    return (word.fetch_or(bit, std::memory_order_relaxed) & bit) != 0;
  }
  static void clear(const Words& words, uint64_t record) {
    words[record / 64].fetch_and(~(uint64_t{1} << record % 64), std::memory_order_relaxed);
  }

  void note_recent(bool is_repeated);
  void note_evicted(uint32_t repeated);
  void note_exposed(bool is_hit);
  [[nodiscard]] uint64_t pairs_of_run(uint64_t before) const;
  [[nodiscard]] bool is_dense(uint64_t pairs) const;
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] double density_min() const;
  [[nodiscard]] bool is_worth(uint64_t region, bool is_cached) const;
  [[nodiscard]] uint64_t unread() const;
  [[nodiscard]] uint64_t left_in(const Region& region) const;
  [[nodiscard]] Region records_of(uint64_t region) const;
  void give_up(bool is_wrong);
  void count_unread() {
    counters_.around_unread_bytes.store(unread() * mean_size_, std::memory_order_relaxed);
  }

  Counters& counters_;
  Clock::time_point (*const now_)();
  const ReadAroundMode mode_;
  const uint64_t record_count_;
  const bool has_copies_;  // a record may be read again, as another file
  const uint64_t mean_size_;
  const uint64_t region_records_;
  const uint64_t region_count_;
  const bool is_noting_;  // whether READs are noted; else only warm() takes regions
  Words known_;
  Words done_;
  std::unique_ptr<Place[]> places_;

  std::atomic<uint64_t> budget_{0};  // records, as all below, since the evidence was given up
  std::atomic<uint64_t> asked_{0};  // READs
  std::atomic<uint64_t> pairs_{0};  // pairs of READs in the same region, in no order
  std::atomic<uint64_t> run_pairs_{0};  // the same for READs in order
  std::atomic<uint64_t> touched_{0};  // regions with READs
  std::atomic<uint64_t> pushed_{0};
  std::atomic<uint64_t> unknown_{0};  // in the page cache of the pack; a READ shows each
  std::atomic<uint64_t> controls_{0};
  std::atomic<uint64_t> hits_{0};  // READs of controls
  std::atomic<uint64_t> exposed_hits_{0};  // READs of controls and of `unknown_`
  std::atomic<uint64_t> expected_{0};  // the same if all READs were at random, in 1/1024
  std::atomic<uint32_t> recent_{0};  // READs in the present group, and
  std::atomic<uint32_t> recent_repeated_{0};  // how many of them are repeated
  std::atomic<uint32_t> streak_{0};  // repeated READs in a row
  std::atomic<uint64_t> evicted_{0};  // repeated READs of whole groups, and
  std::atomic<uint64_t> evictable_{0};  // the same if every pushed file was evicted, in 1/1024
  std::atomic<unsigned> strikes_{0};
  std::atomic<bool> is_second_{false};  // the evidence was given up once
  std::atomic<Clock::rep> closed_until_{0};
  std::atomic<uint64_t> wanted_{0};  // regions
  std::atomic<uint64_t> finished_{0};
  std::atomic<uint64_t> reading_{0};  // regions that are being read now, also for warm()
  Rate alone_rate_;  // READs from storage while no region is read
  Rate beside_rate_;  // while regions are read
  Rate region_rate_;

  struct Warming {
    std::shared_ptr<const WarmedPart> part;
    uint64_t next_region = 0;
    uint64_t room = 0;  // for this many more records
  };
  [[nodiscard]] std::optional<Region> take_to_warm();
  void count_queued() {
    queued_.store(queue_.size() + warmings_.size(), std::memory_order_relaxed);
  }
  void finish_warmed(const Region& region, const Outcome& outcome);

  std::mutex turn_;  // guards nothing
  std::mutex mutex_;  // guards the queues
  std::deque<uint64_t> queue_;
  std::deque<Warming> warmings_;
  uint64_t next_rest_ = 0;  // the region that take_rest() looks at next
  std::atomic<size_t> queued_{0};
};

}  // namespace ffrfs
