#include "remote/remote_object.h"

#include <algorithm>
#include <bit>

#include "remote/remote_error.h"

namespace ffrfs::remote {
namespace {

constexpr auto kFailureTime = std::chrono::seconds(1);
constexpr size_t kAheadMax = 4096;
constexpr uint64_t kWordBits = 64;
// More blocks than a fetcher leaves unsynced (_SYNC_BLOCKS in ffrfs/cache/cached_object.py),
// because the kernel drops no dirty pages.
constexpr size_t kBehindMax = 128;
constexpr uint32_t kWanted = uint32_t{1} << 31;
// Larger objects keep their pages: 16 MiB of memory is enough for counters.
constexpr uint64_t kCountedMax = uint64_t{4} << 20;

uint64_t word_count(uint64_t blocks) { return blocks / kWordBits + 1; }

std::unique_ptr<std::atomic<uint32_t>[]> make_counters(uint64_t count) {
  return count > kCountedMax ? nullptr : std::make_unique<std::atomic<uint32_t>[]>(count);
}

// Appends the block to the last range, or starts another range.
void extend(std::vector<BlockRange>& ranges, uint64_t block) {
  if (!ranges.empty() && ranges.back().first + ranges.back().count == block &&
      ranges.back().count < BlockRange::kCountMax) {
    ++ranges.back().count;
  } else {
    ranges.push_back({.first = block, .count = 1});
  }
}

}  // namespace

RemoteObject::RemoteObject(uint32_t number, std::string url, ObjectFacts facts,
                           std::shared_ptr<const CachedFiles> files, bool keeps_pages)
    : number_(number),
      url_(std::move(url)),
      name_(shown_url(url_)),
      facts_(std::move(facts)),
      used_(std::make_unique<std::atomic<uint64_t>[]>(word_count(facts_.block_count()))),
      read_sizes_(keeps_pages ? nullptr : make_counters(facts_.block_count())),
      files_(std::move(files)) {}

bool RemoteObject::note_used(uint64_t offset, uint64_t size) {
  const BlockRange range = facts_.blocks_of(offset, size);
  bool is_new = false;
  for (uint64_t block = range.first; block < range.first + range.count; ++block) {
    const uint64_t begin = std::max(offset, block * facts_.block_size);
    const uint64_t end = std::min(offset + size, (block + 1) * facts_.block_size);
    if (read_sizes_) count_read(block, end - begin);
    const uint64_t bit = uint64_t{1} << (block % kWordBits);
    std::atomic<uint64_t>& word = used_[block / kWordBits];
    if ((word.load(std::memory_order_relaxed) & bit) != 0) continue;
    word.fetch_or(bit, std::memory_order_relaxed);
    is_new = true;
  }
  return is_new && !has_used_.exchange(true);
}

void RemoteObject::note_wanted(BlockRange range) {
  if (!read_sizes_) return;
  const uint64_t end = std::min(range.first + range.count, facts_.block_count());
  for (uint64_t block = range.first; block < end; ++block) {
    read_sizes_[block].fetch_or(kWanted, std::memory_order_relaxed);
  }
}

void RemoteObject::count_read(uint64_t block, uint64_t size) {
  std::atomic<uint32_t>& counter = read_sizes_[block];
  if ((counter.load(std::memory_order_relaxed) & kWanted) == 0) return;
  const uint64_t whole =
      kWanted + std::min(facts_.block_size, facts_.size - block * facts_.block_size);
  const uint64_t before = counter.fetch_add(static_cast<uint32_t>(size), std::memory_order_relaxed);
  if (before >= whole || before + size < whole) return;
  counter.store(0, std::memory_order_relaxed);
  leave_behind(block);
}

void RemoteObject::leave_behind(uint64_t block) {
  std::shared_ptr<const CachedFiles> files;
  {
    const std::lock_guard lock(mutex_);
    behind_.push_back(block);
    if (behind_.size() <= kBehindMax) return;
    block = behind_.front();
    behind_.pop_front();
    files = files_;
  }
  files->drop_cached(block * facts_.block_size, facts_.block_size);
}

std::vector<BlockRange> RemoteObject::take_used() {
  std::vector<BlockRange> ranges;
  if (!has_used_.exchange(false)) return ranges;
  for (uint64_t i = 0; i < word_count(facts_.block_count()); ++i) {
    if (used_[i].load(std::memory_order_relaxed) == 0) continue;
    for (uint64_t bits = used_[i].exchange(0); bits != 0; bits &= bits - 1) {
      extend(ranges, i * kWordBits + static_cast<uint64_t>(std::countr_zero(bits)));
    }
  }
  return ranges;
}

std::vector<BlockRange> RemoteObject::take_ahead(BlockRange range) {
  const std::lock_guard lock(mutex_);
  std::vector<BlockRange> taken;
  for (uint64_t block = range.first; block < range.first + range.count; ++block) {
    if (ahead_.size() >= kAheadMax) break;
    if (ahead_.insert(block).second) extend(taken, block);
  }
  return taken;
}

void RemoteObject::forget_ahead(BlockRange range) {
  const std::lock_guard lock(mutex_);
  ahead_.erase(ahead_.lower_bound(range.first), ahead_.lower_bound(range.first + range.count));
}

void RemoteObject::note_failure(BlockRange range, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  failure_ = {.range = range, .until = Clock::now() + kFailureTime, .error = std::move(error)};
}

std::exception_ptr RemoteObject::recent_failure(BlockRange range) const {
  const std::lock_guard lock(mutex_);
  if (!failure_ || Clock::now() >= failure_->until) return nullptr;
  const BlockRange& failed = failure_->range;
  const bool meets =
      range.first < failed.first + failed.count && failed.first < range.first + range.count;
  return meets ? failure_->error : nullptr;
}

}  // namespace ffrfs::remote
