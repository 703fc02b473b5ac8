#include "volume/block_reader.h"

#include <algorithm>
#include <array>

#include "volume/verification.h"

namespace ffrfs {
namespace {

// Of the limit: a half in flight, a quarter kept for the next request, an eighth read ahead
// and held (see Prefetcher), the rest for buffers that wait to be used again.
constexpr size_t kInFlightShare = 2;
constexpr size_t kKeptShare = 4;
constexpr size_t kFreeShare = 16;
// Reading ahead is content with a half of what may be in flight, and needs each byte twice:
// as it comes, and in its block.
constexpr size_t kAheadShare = 2;
constexpr size_t kAheadCopies = 2;
// What somebody else has claimed for so long is not waited for.
constexpr auto kPatience = std::chrono::milliseconds(200);

}  // namespace

BlockReader::BlockReader(const ShardSet& shards, Counters& counters, size_t limit_bytes)
    : shards_(shards),
      counters_(counters),
      admission_limit_bytes_(limit_bytes / kInFlightShare),
      buffers_(limit_bytes / kFreeShare),
      cache_(limit_bytes / kKeptShare, counters.bytes_kept),
      prefetched_(counters.bytes_prefetched),
      in_flight_limit_bytes_(admission_limit_bytes_),
      queue_(buffers_) {
  // A page that outlives us may still tell what another process held.
  counters_.queue_depth = 0;
  counters_.bytes_in_flight = 0;
}

BlockPtr BlockReader::make_block(size_t size) {
  auto block = std::make_shared<Block>();
  block->buffer = buffers_.acquire(size);
  block->bytes = block->buffer.first(size);
  return block;
}

BlockPtr BlockReader::find(const BlockPlan& plan) {
  if (BlockPtr block = find_in_memory(plan)) return block;
  BlockPtr block = find_cached(plan);
  observe(plan, block ? Found::kPageCache : Found::kMissing);
  return block;
}

BlockPtr BlockReader::find_in_memory(const BlockPlan& plan) {
  BlockPtr block = cache_.find(plan.key());
  const bool is_kept = block != nullptr;
  if (!is_kept) block = prefetched_.take(plan.key());
  if (!block) return nullptr;
  counters_.bytes_memory.fetch_add(plan.size, std::memory_order_relaxed);
  observe(plan, is_kept ? Found::kKept : Found::kPrefetched);
  return block;
}

BlockPtr BlockReader::find_cached(const BlockPlan& plan) {
  BlockPtr block = make_block(plan.size);
  std::array<std::byte, Extent::kTrailerSizeMax> memory;
  const auto trailer = std::span(memory).first(plan.trailer_size());
  const SourceFile& file = shards_.file_of(plan.extent);
  if (!file.read_cached(plan.file_offset(), block->buffer.first(plan.size), trailer)) {
    return nullptr;
  }
  counters_.bytes_page_cache.fetch_add(plan.size, std::memory_order_relaxed);
  check(plan, block->bytes, trailer);
  return block;
}

BlockReader::Claim BlockReader::claim(const BlockPlan& plan) {
  const std::lock_guard lock(mutex_);
  if (fetches_.contains(plan.key()) || prefetched_.contains(plan.key()) ||
      cache_.find(plan.key())) {
    return Claim::kBusy;
  }
  if (!backlog_.empty()) return Claim::kFull;  // others are first
  if (!enter(kAheadCopies * plan.size, in_flight_limit_bytes_ / kAheadShare)) return Claim::kFull;
  fetches_.try_emplace(plan.key(), Fetch{.plan = plan, .is_claimed = true, .claimed_at = Clock::now()});
  counters_.queue_depth.fetch_add(1, std::memory_order_relaxed);
  return Claim::kTaken;
}

bool BlockReader::release(const BlockPlan& plan, const BlockPtr& block,
                          const std::exception_ptr& error) {
  Fetch fetch;
  {
    const std::lock_guard lock(mutex_);
    const auto entry = fetches_.find(plan.key());
    if (entry != fetches_.end() && entry->second.is_claimed) {  // else it was overtaken
      fetch = std::move(entry->second);
      fetches_.erase(entry);
      counters_.queue_depth.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  leave(kAheadCopies * plan.size);
  const bool is_awaited = !fetch.waiting.empty();
  if (is_awaited) {
    queue_.post([this, key = plan.key(), waiting = std::move(fetch.waiting), block, error] {
      for (const Done& done : waiting) done(block, error);
      // Not before: until now others would not have found it anywhere.
      [[maybe_unused]] const BlockPtr held = prefetched_.take(key);
    });
  }
  return is_awaited;
}

void BlockReader::fetch(const BlockPlan& plan, Done done) {
  {
    const std::lock_guard lock(mutex_);
    auto [entry, first] = fetches_.try_emplace(plan.key(), Fetch{.plan = plan});
    // It may have been read ahead since find().
    if (BlockPtr block = first ? prefetched_.take(plan.key()) : nullptr) {
      fetches_.erase(entry);
      queue_.post([done = std::move(done), block] { done(block, nullptr); });
      return;
    }
    entry->second.waiting.push_back(std::move(done));
    if (!first && !is_overdue(entry->second)) return;
    if (first) counters_.queue_depth.fetch_add(1, std::memory_order_relaxed);
    entry->second.is_claimed = false;
  }
  start_in_turn(plan);
}

bool BlockReader::is_overdue(const Fetch& fetch) {
  return fetch.is_claimed && Clock::now() - fetch.claimed_at > kPatience;
}

void BlockReader::overtake() {
  std::vector<BlockPlan> plans;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [key, fetch] : fetches_) {
      if (fetch.waiting.empty() || !is_overdue(fetch)) continue;
      fetch.is_claimed = false;
      plans.push_back(fetch.plan);
    }
  }
  for (const BlockPlan& plan : plans) start_in_turn(plan);
}

void BlockReader::start_in_turn(const BlockPlan& plan) {
  admit(plan.size, [this, plan] { start(plan); });
}

void BlockReader::admit(size_t size, std::function<void()> start) {
  {
    const std::lock_guard lock(mutex_);
    if (!enter(size, in_flight_limit_bytes_)) {
      backlog_.push_back({size, std::move(start)});
      return;
    }
  }
  start();
}

void BlockReader::leave(size_t size) {
  std::vector<std::function<void()>> next;
  {
    const std::lock_guard lock(mutex_);
    counters_.bytes_in_flight.fetch_sub(size, std::memory_order_relaxed);
    --in_flight_;
    in_flight_bytes_ -= size;
    next = take_admitted();
  }
  for (const auto& start : next) start();
}

void BlockReader::limit_cache(size_t limit_bytes) {
  cache_.set_limit(limit_bytes / kKeptShare);
  buffers_.limit_free(limit_bytes / kFreeShare);
  std::vector<std::function<void()>> next;
  {
    const std::lock_guard lock(mutex_);
    in_flight_limit_bytes_ = limit_bytes / kInFlightShare;
    next = take_admitted();
  }
  for (const auto& start : next) start();
}

// With the lock held: those whose turn it is, to be started without it.
std::vector<std::function<void()>> BlockReader::take_admitted() {
  std::vector<std::function<void()>> next;
  while (!backlog_.empty() && enter(backlog_.front().size, in_flight_limit_bytes_)) {
    next.push_back(std::move(backlog_.front().start));
    backlog_.pop_front();
  }
  return next;
}

// With the lock held. False: it has to wait.
bool BlockReader::enter(size_t size, size_t limit_bytes) {
  if (in_flight_ > 0 && in_flight_bytes_ + size > limit_bytes) return false;
  ++in_flight_;
  in_flight_bytes_ += size;
  counters_.bytes_in_flight.fetch_add(size, std::memory_order_relaxed);
  return true;
}

void BlockReader::start(const BlockPlan& plan) {
  try {
    queue_.submit(shards_.file_of(plan.extent), plan.file_offset(),
                  plan.size + plan.trailer_size(),
                  [this, plan](RawBytes raw) { finish(plan, std::move(raw)); });
  } catch (...) {  // no memory: those who wait must hear of it
    queue_.post([this, plan, error = std::current_exception()] {
      finish(plan, RawBytes{.buffer = {}, .bytes = {}, .error = error});
    });
  }
}

void BlockReader::finish(const BlockPlan& plan, RawBytes raw) {
  BlockPtr block;
  std::exception_ptr error = raw.error;
  try {
    if (!error) {
      counters_.bytes_storage.fetch_add(plan.size, std::memory_order_relaxed);
      const auto bytes = raw.bytes.first(plan.size);
      check(plan, bytes, raw.bytes.subspan(plan.size));
      block = std::make_shared<Block>();
      block->buffer = std::move(raw.buffer);
      block->is_from_storage = true;
      block->bytes = bytes;
    }
  } catch (...) {
    error = std::current_exception();
  }
  Fetch fetch;
  {
    const std::lock_guard lock(mutex_);
    auto entry = fetches_.extract(plan.key());
    fetch = std::move(entry.mapped());
    counters_.queue_depth.fetch_sub(1, std::memory_order_relaxed);
  }
  leave(plan.size);
  for (const Done& done : fetch.waiting) done(block, error);
}

void BlockReader::check(const BlockPlan& plan, std::span<const std::byte> bytes,
                        std::span<const std::byte> trailer) {
  switch (plan.check) {
    case Check::kNothing:
      return;
    case Check::kRecord:
      return check_record(shards_, plan.extent, record_crc(plan.extent, bytes), trailer, counters_);
    case Check::kChunk:
      return check_chunk(shards_, plan.extent, plan.begin, bytes, plan.crc32c, counters_);
  }
}

void BlockReader::served(const BlockKey& key, size_t size, const BlockPtr& block, size_t count) {
  const size_t total = block->served_bytes.fetch_add(count, std::memory_order_relaxed) + count;
  if (total >= size) {
    if (count < size) cache_.drop(key);
  } else {
    cache_.keep(key, block);
  }
}

}  // namespace ffrfs
