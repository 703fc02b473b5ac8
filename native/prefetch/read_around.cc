#include "prefetch/read_around.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ffrfs {
namespace {

// READs are counted in groups of this size, to find repeated ones.
constexpr uint32_t kRecent = 64;
constexpr uint32_t kRepeatedMax = 8;  // more mean that the kernel has evicted pushed files
constexpr uint32_t kStreakMin = 32;   // so many in a row: the whole page cache was dropped
constexpr double kDensityAfterwards = 0.25;  // part of the page cache may be left, which is unknown
constexpr uint64_t kSamplesMin = 8;
constexpr double kNever = 2;  // a density that is never reached
constexpr unsigned kStrikesMax = 4;  // each doubles the density that is required
constexpr uint64_t kExpectedMin = 16;  // READs of controls, before the comparison
constexpr uint64_t kFraction = 1024;
constexpr auto kPause = std::chrono::seconds(8);  // doubled by each further strike
constexpr size_t kQueueMax = 4096;
constexpr uint64_t kRunShare = 4;  // READs in order are evidence after 1/kRunShare of a region
constexpr uint64_t kLeftMin = 2;  // so many new files make it worthwhile to look at a region again

std::unique_ptr<std::atomic<uint64_t>[]> make_bits(uint64_t count) {
  return std::make_unique<std::atomic<uint64_t>[]>(static_cast<size_t>(count / 64 + 1));
}

}  // namespace

ReadAround::ReadAround(const Amounts& amounts, ReadAroundMode mode, Counters& counters,
                       Clock::time_point (*now)())
    : counters_(counters),
      now_(now),
      mode_(mode),
      record_count_(amounts.records),
      has_copies_(amounts.files > amounts.records),
      mean_size_(std::max<uint64_t>(amounts.records > 0 ? amounts.bytes / amounts.records : 0, 1)),
      region_records_(std::clamp<uint64_t>(kRegionBytes / mean_size_, 1, kRegionRecordsMax)),
      region_count_((record_count_ + region_records_ - 1) / region_records_),
      is_noting_(mode != ReadAroundMode::kOff && region_records_ >= kRegionRecordsMin) {
  known_ = make_bits(record_count_);
  done_ = make_bits(record_count_);
  places_ = std::make_unique<Place[]>(static_cast<size_t>(region_count_));
}

void ReadAround::note_known(uint64_t record) {
  if (record < record_count_) set(known_, record);
}

bool ReadAround::note_read(uint64_t record, bool is_cached) {
  if (!is_noting_ || record >= record_count_) return false;
  const uint64_t region = record / region_records_;
  Place& place = places_[region];
  const auto number = static_cast<uint16_t>(record % region_records_);
  const uint16_t last = place.last.exchange(number, std::memory_order_relaxed);
  const bool is_repeated = set(done_, record);
  // Not every repeated READ means an eviction: the READs of one file follow each other directly,
  // and while a region is pushed, a READ may have been sent before its file came.
  const bool is_late = number == last || has_copies_ || place.is_queued;
  if (!is_repeated || !is_late) note_recent(is_repeated);
  if (is_repeated) return false;
  const uint16_t before = place.reads.fetch_add(1, std::memory_order_relaxed);
  asked_.fetch_add(1, std::memory_order_relaxed);
  if (before == 0) touched_.fetch_add(1, std::memory_order_relaxed);
  const bool is_around = place.is_around.load(std::memory_order_relaxed);
  const bool is_hit = is_around && is_control(record) && has(known_, record);
  if (is_hit) {
    hits_.fetch_add(1, std::memory_order_relaxed);
    counters_.around_controls_read.fetch_add(1, std::memory_order_relaxed);
    count_unread();
  }
  note_exposed(is_around);
  const bool is_in_run = before > 0 && number == last + 1;
  if (is_in_run && !is_cached) return false;  // Readahead serves it; no evidence for its neighbours
  if (is_in_run) {
    run_pairs_.fetch_add(pairs_of_run(before), std::memory_order_relaxed);
  } else {
    pairs_.fetch_add(before, std::memory_order_relaxed);
  }
  if (place.is_queued.load(std::memory_order_relaxed) || !is_dense(pairs_ + run_pairs_) ||
      !has_room() || !is_worth(region, is_cached)) {
    return false;
  }
  if (place.is_queued.exchange(true, std::memory_order_relaxed)) return false;
  const std::lock_guard lock(mutex_);
  if (queue_.size() >= kQueueMax) {
    place.is_queued = false;
    return false;
  }
  queue_.push_back(region);
  wanted_.fetch_add(1, std::memory_order_relaxed);
  count_queued();
  return true;
}

// Returns how many pairs a READ in order adds, after `before` other READs of its region: at first
// none, then all those that were not counted, then `before`.
uint64_t ReadAround::pairs_of_run(uint64_t before) const {
  const uint64_t least = region_records_ / kRunShare;
  if (before < least) return 0;
  return before == least ? before * (before + 1) / 2 : before;
}

// Returns whether READs are dense enough; `pairs`: how many pairs of them were in the same region.
bool ReadAround::is_dense(uint64_t pairs) const {
  if (now_().time_since_epoch().count() < closed_until_.load(std::memory_order_relaxed)) {
    return false;
  }
  if (mode_ == ReadAroundMode::kOn) return true;
  const auto asked = static_cast<double>(asked_.load(std::memory_order_relaxed));
  const auto twice = 2 * static_cast<double>(pairs);
  const double density = twice / (asked * static_cast<double>(region_records_ - 1));
  return pairs >= kPairsMin && density >= density_min();
}

bool ReadAround::has_room() const {
  const uint64_t asked = asked_.load(std::memory_order_relaxed);
  const auto limit =
      std::min(budget_.load(std::memory_order_relaxed), asked * kGrowth + 2 * region_records_);
  return unread() + region_records_ <= limit;
}

// Returns the density from which on neighbours are worth their price: READs from storage are slower
// while regions are read, and programs read only that share of a region's files.
double ReadAround::density_min() const {
  const double least = (is_second_ ? kDensityAfterwards : kDensityMin) *
                       (1U << strikes_.load(std::memory_order_relaxed));
  const bool waits = alone_rate_.count() >= kSamplesMin;  // READs wait for storage
  if (!waits || wanted_.load(std::memory_order_relaxed) < kTrialRegions) return least;
  if (finished_.load(std::memory_order_relaxed) < kTrialRegions) return kNever;
  if (beside_rate_.count() < kSamplesMin || region_rate_.count() == 0) return least;
  const double lost = alone_rate_.bytes_per_ns() - beside_rate_.bytes_per_ns();
  return std::max(least, lost / (kThreads * region_rate_.bytes_per_ns()));
}

// Estimates, from the READs of controls, how many records were taken and not read yet.
uint64_t ReadAround::unread() const {
  const uint64_t pushed = pushed_.load(std::memory_order_relaxed);
  const uint64_t controls = std::max<uint64_t>(controls_.load(std::memory_order_relaxed), 1);
  const uint64_t hits = std::min(hits_.load(std::memory_order_relaxed), controls);
  return pushed - pushed * hits / controls + unknown_.load(std::memory_order_relaxed);
}

// Returns whether more files can be pushed than were left when the region was last taken. If a pass
// found nothing to take, a READ from storage shows that the pages have been evicted since.
bool ReadAround::is_worth(uint64_t region, bool is_cached) const {
  const Place& place = places_[region];
  const std::atomic<bool>& has_been = is_cached ? place.is_looked : place.is_around;
  if (!has_been.load(std::memory_order_relaxed)) return true;
  return left_in(records_of(region)) >=
         place.left.load(std::memory_order_relaxed) + kLeftMin + region_records_ / 8;
}

// Counts the files that the kernel knows, and that were neither read nor pushed.
uint64_t ReadAround::left_in(const Region& region) const {
  uint64_t left = 0;
  for (uint64_t record = region.begin; record < region.end; ++record) {
    left += has(known_, record) && !has(done_, record) ? 1 : 0;
  }
  return left;
}

Region ReadAround::records_of(uint64_t region) const {
  const uint64_t begin = region * region_records_;
  return {begin, std::min(begin + region_records_, record_count_)};
}

std::optional<Region> ReadAround::take() {
  const std::lock_guard lock(mutex_);
  if (has_work()) reading_.fetch_add(1, std::memory_order_relaxed);
  if (queue_.empty()) return take_to_warm();
  const uint64_t region = queue_.front();
  queue_.pop_front();
  count_queued();
  Region taken = records_of(region);
  taken.left = left_in(taken);
  return taken;
}

std::vector<Region> ReadAround::take_rest(size_t count) {
  std::vector<Region> rest;
  const auto touched = static_cast<double>(touched_.load(std::memory_order_relaxed));
  if (touched < kRestShare * static_cast<double>(region_count_) || !is_dense(pairs_)) return rest;
  const std::lock_guard lock(mutex_);
  for (; rest.size() < count && next_rest_ < region_count_; ++next_rest_) {
    if (places_[next_rest_].reads == 0) rest.push_back(records_of(next_rest_));
  }
  return rest;
}

void ReadAround::warm(WarmedPart part) {
  part.records.resize(static_cast<size_t>(record_count_));
  const uint64_t count = part.count(0, record_count_);
  counters_.warm_files.fetch_add(count, std::memory_order_relaxed);
  counters_.warm_left.fetch_add(count, std::memory_order_relaxed);
  counters_.warm_begun.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  warmings_.push_back({.part = std::make_shared<const WarmedPart>(std::move(part)),
                       .room = budget_.load(std::memory_order_relaxed)});
  count_queued();
}

// Needs the lock. Parts of the tree are warmed one after the other.
std::optional<Region> ReadAround::take_to_warm() {
  if (warmings_.empty()) return std::nullopt;
  Warming& warming = warmings_.front();
  Region region = records_of(warming.next_region++);
  region.warmed = warming.part;
  const uint64_t wanted = warming.part->count(region.begin, region.end);
  // Pushing more would evict files that were warmed before.
  if (wanted > warming.room) {
    counters_.warm_left_out.fetch_add(wanted, std::memory_order_relaxed);
    region.begin = region.end;
  }
  warming.room -= std::min(wanted, warming.room);
  region.warmed_count = wanted;
  if (warming.next_region == region_count_) warmings_.pop_front();
  count_queued();
  return region;
}

void ReadAround::finish_warmed(const Region& region, const Outcome& outcome) {
  counters_.warm_pushed.fetch_add(outcome.pushed, std::memory_order_relaxed);
  counters_.warm_left.fetch_sub(region.warmed_count, std::memory_order_relaxed);
}

void ReadAround::finish(const Region& region, const Outcome& outcome) {
  reading_.fetch_sub(1, std::memory_order_relaxed);
  if (region.warmed) return finish_warmed(region, outcome);
  finished_.fetch_add(1, std::memory_order_relaxed);
  if (outcome.read_bytes > 0) region_rate_.add(outcome.read_bytes, outcome.elapsed);
  Place& place = places_[region.begin / region_records_];
  // Does not count names that the kernel has learned since: the pass may have missed their files.
  const uint64_t left =
      std::min(left_in(region), region.left - std::min(region.left, outcome.pushed));
  const uint64_t before =
      place.left.exchange(static_cast<uint16_t>(left), std::memory_order_relaxed);
  if (outcome.pushed > 0) {
    const uint64_t controls = left > before ? left - before : 0;
    pushed_.fetch_add(outcome.pushed, std::memory_order_relaxed);
    controls_.fetch_add(controls, std::memory_order_relaxed);
    counters_.around_pushed.fetch_add(outcome.pushed, std::memory_order_relaxed);
    counters_.around_controls.fetch_add(controls, std::memory_order_relaxed);
  }
  counters_.around_read_bytes.fetch_add(outcome.read_bytes, std::memory_order_relaxed);
  unknown_.fetch_add(outcome.unknown, std::memory_order_relaxed);
  const bool is_around = outcome.pushed + outcome.unknown > 0;
  place.is_around = is_around;
  place.is_looked = is_around || !outcome.is_cut;
  place.is_queued = false;
  count_unread();
}

// Compares the READs of exposed records (controls, and records in the page cache of the pack) with
// their share of all records that are not done, which READs at random would give.
void ReadAround::note_exposed(bool is_hit) {
  const uint64_t controls = controls_.load(std::memory_order_relaxed);
  const uint64_t hits = std::min(hits_.load(std::memory_order_relaxed), controls);
  const uint64_t unknown = unknown_.load(std::memory_order_relaxed);
  const uint64_t exposed = controls - hits + unknown;
  if (exposed == 0) return;
  if (is_hit) {
    exposed_hits_.fetch_add(1, std::memory_order_relaxed);
    if (unknown > 0) unknown_.fetch_sub(1, std::memory_order_relaxed);
  }
  const uint64_t done =
      asked_.load(std::memory_order_relaxed) + pushed_.load(std::memory_order_relaxed);
  const uint64_t open = std::max(record_count_ > done ? record_count_ - done : 0, exposed);
  const uint64_t expected =
      expected_.fetch_add(exposed * kFraction / open, std::memory_order_relaxed) / kFraction;
  if (expected < kExpectedMin) return;
  const uint64_t found = exposed_hits_.exchange(0, std::memory_order_relaxed);
  expected_.store(0, std::memory_order_relaxed);
  if (found < expected / 4) give_up(true);
}

void ReadAround::note_recent(bool is_repeated) {
  if (is_repeated) {
    recent_repeated_.fetch_add(1, std::memory_order_relaxed);
    streak_.fetch_add(1, std::memory_order_relaxed);
  } else {
    streak_.store(0, std::memory_order_relaxed);
  }
  if (recent_.fetch_add(1, std::memory_order_relaxed) + 1 < kRecent) return;
  recent_.store(0, std::memory_order_relaxed);
  const uint32_t repeated = recent_repeated_.exchange(0, std::memory_order_relaxed);
  const uint32_t streak = streak_.load(std::memory_order_relaxed);
  if (repeated > kRepeatedMax) return give_up(streak < repeated && streak < kStreakMin);
  if (repeated == 0 || streak < repeated) note_evicted(repeated);
}

// Compares the repeated READs of a group with the share of pushed files among all unread files.
void ReadAround::note_evicted(uint32_t repeated) {
  const uint64_t unread = this->unread();
  const uint64_t done =
      asked_.load(std::memory_order_relaxed) + pushed_.load(std::memory_order_relaxed);
  const uint64_t open = unread + (record_count_ > done ? record_count_ - done : 0);
  const uint64_t share = unread * kRecent * kFraction / std::max<uint64_t>(open, 1);
  const uint64_t found = evicted_.fetch_add(repeated, std::memory_order_relaxed) + repeated;
  const uint64_t expected = evictable_.fetch_add(share, std::memory_order_relaxed) / kFraction;
  if (expected < kExpectedMin) return;
  evicted_ = evictable_ = 0;
  if (found > expected / 4) give_up(true);
}

// Forgets the past; if taking neighbours was wrong, asks for stronger evidence from now on.
void ReadAround::give_up(bool is_wrong) {
  if (is_wrong) {
    counters_.around_given_up.fetch_add(1, std::memory_order_relaxed);
    closed_until_ = (now_() + kPause * (1U << strikes_)).time_since_epoch().count();
    strikes_ = std::min(strikes_.load() + 1, kStrikesMax);
  }
  is_second_ = true;
  const std::lock_guard lock(mutex_);
  queue_.clear();
  count_queued();
  for (uint64_t region = 0; region < region_count_; ++region) {
    Place& place = places_[region];
    place.reads = place.last = place.left = 0;
    place.is_queued = place.is_around = place.is_looked = false;
  }
  for (uint64_t word = 0; word <= record_count_ / 64; ++word) done_[word] = 0;
  next_rest_ = 0;
  asked_ = pairs_ = run_pairs_ = touched_ = pushed_ = unknown_ = controls_ = hits_ = exposed_hits_ =
      expected_ = evicted_ = evictable_ = wanted_ = finished_ = 0;
  alone_rate_.reset();
  beside_rate_.reset();
  region_rate_.reset();
  count_unread();
}

}  // namespace ffrfs
