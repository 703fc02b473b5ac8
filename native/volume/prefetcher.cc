#include "volume/prefetcher.h"

#include <algorithm>
#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

namespace ffrfs {
namespace {

constexpr size_t kBatchRecords = 32;
// Owners above this are runs of readahead, those below lists.
constexpr uint64_t kRunOwner = uint64_t{1} << 63;
constexpr auto kLeftOutInterval = std::chrono::milliseconds(500);
constexpr auto kWatchIntervalMin = std::chrono::milliseconds(10);
constexpr auto kWatchIntervalMax = std::chrono::milliseconds(100);

}  // namespace

Prefetcher::Prefetcher(const ShardSet& shards, const Tree& tree, bool has_files,
                       BlockReader& blocks, BatchReader& batches, Counters& counters,
                       const PrefetchOptions& options, size_t limit_bytes, bool check_data,
                       Push push)
    : shards_(shards),
      blocks_(blocks),
      batches_(batches),
      counters_(counters),
      options_(options),
      check_data_(check_data),
      push_(std::move(push)),
      limit_bytes_(limit_bytes),
      readahead_(tree, shards.count(), has_files, options.window_records) {
  try {
    threads_.emplace_back([this] { watch(); });
    for (size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
  } catch (...) {
    join();
    throw;
  }
}

Prefetcher::~Prefetcher() { join(); }

void Prefetcher::join() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

void Prefetcher::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  work_.notify_all();
  watch_.notify_all();
}

void Prefetcher::set_limit(size_t limit_bytes) {
  const std::lock_guard lock(mutex_);
  limit_bytes_ = limit_bytes;
  count_waste(blocks_.prefetched().shrink(limit_bytes));
  work_.notify_all();
}

// Lists of hints.

Prefetcher::ListId Prefetcher::open_list() {
  const std::lock_guard lock(mutex_);
  if (lists_.size() >= kListsMax) {
    // One that has been told, and is only waited for, makes room.
    const auto oldest = std::ranges::min_element(lists_, {}, [](const auto& list) {
      return list.second.hints.is_finished() ? list.second.last_use : Clock::time_point::max();
    });
    if (!oldest->second.hints.is_finished()) throw std::length_error("too many lists of hints");
    erase(oldest);
  }
  const ListId id = next_list_++;
  lists_.emplace(id, Client{HintList(options_.window_records, options_.window_bytes),
                            Clock::now()});
  list_count_.store(lists_.size(), std::memory_order_relaxed);
  return id;
}

size_t Prefetcher::add(ListId list, std::span<const Hint> hints) {
  const std::lock_guard lock(mutex_);
  const auto found = lists_.find(list);
  if (found == lists_.end()) return hints.size();  // expired: whatever comes is ignored
  Client& client = found->second;
  counters_.prefetch_hinted.fetch_add(hints.size(), std::memory_order_relaxed);
  const size_t taken = std::min(hints.size(), room_of(client.hints));
  for (const Hint& hint : hints.first(taken)) {
    // Nothing is to be read of one whose index is damaged; its reader is told.
    const auto extent = find_extent(hint.record);
    client.hints.add(hint, extent ? extent->size : 0);
  }
  counters_.prefetch_dropped.fetch_add(hints.size() - taken, std::memory_order_relaxed);
  client.last_use = Clock::now();
  const size_t room = room_of(client.hints);
  client.is_full = room == 0;
  work_.notify_all();
  return room;
}

// With the lock held. The first to come may fill theirs, and cannot starve the others.
size_t Prefetcher::room_of(const HintList& hints) const {
  size_t total = 0;
  for (const auto& [id, client] : lists_) total += client.hints.size();
  const size_t own = hints.least_size() - std::min(hints.least_size(), hints.size());
  return std::min(hints.room(), std::max(own, kHintsMax - std::min(kHintsMax, total)));
}

size_t Prefetcher::room(ListId list) const {
  const std::lock_guard lock(mutex_);
  const auto found = lists_.find(list);
  return found == lists_.end() ? 0 : room_of(found->second.hints);
}

void Prefetcher::finish(ListId list) {
  const std::lock_guard lock(mutex_);
  const auto found = lists_.find(list);
  if (found == lists_.end()) return;
  found->second.hints.finish();
  found->second.last_use = Clock::now();
  work_.notify_all();
}

void Prefetcher::drop(ListId list) {
  const std::lock_guard lock(mutex_);
  const auto found = lists_.find(list);
  if (found != lists_.end()) erase(found);
  count_waste(blocks_.prefetched().drop(list));
}

void Prefetcher::on_room(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  on_room_ = std::move(callback);
}

std::map<Prefetcher::ListId, Prefetcher::Client>::iterator Prefetcher::erase(
    std::map<ListId, Client>::iterator list) {
  count(list->second.hints.close());
  has_freed_ = true;
  watch_.notify_one();
  const auto next = lists_.erase(list);
  list_count_.store(lists_.size(), std::memory_order_relaxed);
  return next;
}

// What readers do.

void Prefetcher::note_read(const Extent& extent, Found found) {
  const bool has_lists = list_count_.load(std::memory_order_relaxed) > 0;
  if (found == Found::kKept || (found == Found::kPageCache && !has_lists)) return;
  const uint64_t record = shards_.start(extent.shard) + extent.record;
  std::function<void()> has_room;
  {
    const std::lock_guard lock(mutex_);
    bool is_hinted = false;
    for (auto& [id, client] : lists_) {
      if (!client.hints.note_read(record, found == Found::kPrefetched)) continue;
      is_hinted = true;
      client.last_use = Clock::now();
      settle(id, client.hints);
      if (client.is_full && room_of(client.hints) >= kBatchRecords) {
        client.is_full = false;
        has_room = on_room_;
      }
    }
    if (is_hinted && found == Found::kPageCache) {
      // It may have come since it was looked for in memory, and then nobody takes it.
      const BlockKey key = whole_plan(extent, check_data_).key();
      for (const auto& [id, client] : lists_) count_waste(blocks_.prefetched().drop(id, key));
    }
    if (!is_hinted && found != Found::kPageCache) {
      if (found == Found::kPrefetched) counters_.readahead_hit.fetch_add(1, std::memory_order_relaxed);
      readahead_.note_read(record);
    }
    if (has_work()) work_.notify_one();
  }
  if (has_room) has_room();
}

// The threads.

void Prefetcher::run() {
  while (true) {
    std::vector<Task> batch;
    {
      std::unique_lock lock(mutex_);
      while (!stopping_ && (batch = take_batch()).empty()) work_.wait(lock);
      if (stopping_) return;
      watch_.notify_one();
    }
    read(batch);
    push(batch);
  }
}

void Prefetcher::watch() {
  const auto interval = std::clamp<Clock::duration>(options_.ttl, kWatchIntervalMin,
                                                    kWatchIntervalMax);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const bool is_idle = in_flight_ == 0 && lists_.empty() && blocks_.prefetched().empty();
    if (is_idle && !has_freed_) {
      watch_.wait(lock);
    } else {
      watch_.wait_for(lock, interval);
    }
    expire(Clock::now());
    // Hints are many small pieces of memory, which the C library would keep.
    const bool is_to_give_back = lists_.empty() && std::exchange(has_freed_, false);
    lock.unlock();
    if (is_to_give_back) release_free_memory();
    // A read that was joined may be held up by its neighbours in a merged one.
    blocks_.overtake();
    lock.lock();
    if (has_work()) work_.notify_one();
  }
}

// With the lock held, as all that begin with "take".
bool Prefetcher::has_work() const {
  return in_flight_ < kDepth &&
         (readahead_.wants(kBatchRecords) || std::ranges::any_of(lists_, [](const auto& list) {
            return list.second.hints.wants(kBatchRecords);
          }));
}

std::vector<Prefetcher::Task> Prefetcher::take_batch() {
  std::vector<Task> batch;
  if (in_flight_ >= kDepth) return batch;
  const size_t limit = std::min(kBatchRecords, kDepth - in_flight_);
  // Of those who want something each gets its share, beginning after the one served last.
  size_t wanting = 1;
  for (const auto& [id, client] : lists_) wanting += client.hints.wants(kBatchRecords) ? 1 : 0;
  const size_t share = std::max<size_t>(limit / wanting, 1);
  auto list = lists_.upper_bound(last_served_);
  for (size_t i = 0; i < lists_.size() && batch.size() < limit; ++i, ++list) {
    if (list == lists_.end()) list = lists_.begin();
    if (!list->second.hints.wants(kBatchRecords)) continue;
    last_served_ = list->first;
    const size_t end = wanting > 2 ? std::min(limit, batch.size() + share) : limit;
    take_hinted(list->first, list->second.hints, batch, end);
  }
  take_in_order(batch, limit);
  in_flight_ += batch.size();
  for (const Task& task : batch) in_flight_bytes_ += task.memory_bytes;
  if (in_flight_ > counters_.prefetch_depth_max.load(std::memory_order_relaxed)) {
    counters_.prefetch_depth_max.store(in_flight_, std::memory_order_relaxed);
  }
  return batch;
}

void Prefetcher::take_hinted(ListId id, HintList& hints, std::vector<Task>& batch, size_t end) {
  while (batch.size() < end) {
    const auto next = hints.take();
    if (!next) return;
    Task task{.hint = next->hint, .owner = id, .index = next->index,
              .is_marker = next->is_marker};
    switch (claim(task, batch)) {
      case BlockReader::Claim::kTaken:
        batch.push_back(std::move(task));
        break;
      case BlockReader::Claim::kBusy:
        hints.set_state(next->index, HintList::State::kHeld);
        break;
      case BlockReader::Claim::kFull:
        hints.put_back(next->index);
        return;
    }
  }
}

void Prefetcher::take_in_order(std::vector<Task>& batch, size_t end) {
  while (batch.size() < end) {
    const auto next = readahead_.take(kBatchRecords);
    if (!next) return;
    Task task{.hint = {.record = next->record, .ino = next->ino}, .owner = kRunOwner | next->run,
              .is_marker = next->is_marker};
    switch (claim(task, batch)) {
      case BlockReader::Claim::kTaken:
        batch.push_back(std::move(task));
        break;
      case BlockReader::Claim::kBusy:
        break;
      case BlockReader::Claim::kFull:
        readahead_.put_back(next->run);
        return;
    }
  }
}

// Whether what is held, or may have to be when it comes, leaves room for that one, too.
bool Prefetcher::has_room(size_t memory_bytes, const std::vector<Task>& batch) const {
  size_t used = blocks_.prefetched().size_bytes() + in_flight_bytes_;
  for (const Task& task : batch) used += task.memory_bytes;
  return used == 0 || used + memory_bytes <= limit_bytes_;
}

// As it comes from storage: with what is read beside it to be aligned.
size_t Prefetcher::memory_for(const Extent& extent) const {
  const size_t alignment = shards_.file_of(extent).alignment();
  return BufferPool::capacity_for(static_cast<size_t>(extent.size) + extent.trailer_size() +
                                  2 * alignment);
}

// nullopt: the index is damaged there, which is for those to hear who read the record.
std::optional<Extent> Prefetcher::find_extent(uint64_t record) const {
  try {
    return shards_.extent(record);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

BlockReader::Claim Prefetcher::claim(Task& task, const std::vector<Task>& batch) {
  const auto extent = find_extent(task.hint.record);
  // Nothing to be read, or more than there is room for; readers manage.
  if (!extent || extent->size == 0 || extent->size > limit_bytes_ / 2) {
    return BlockReader::Claim::kBusy;
  }
  task.plan = whole_plan(*extent, check_data_);
  task.memory_bytes = memory_for(*extent);
  if (!has_room(task.memory_bytes, batch)) {
    is_short_ = true;
    return BlockReader::Claim::kFull;
  }
  return blocks_.claim(task.plan);
}

// Each becomes known to the readers, who may be waiting, as soon as it is there.
void Prefetcher::read(std::vector<Task>& batch) {
  std::vector<BatchItem> items;
  try {
    for (Task& task : batch) {
      task.block = std::make_shared<Block>();
      task.block->is_from_storage = true;
    }
    items.reserve(batch.size());
    for (const Task& task : batch) items.push_back({.extent = task.plan.extent, .target = {}});
    batches_.load(items, check_data_, [this, &batch, &items](size_t index) {
      BatchItem& item = items[index];
      Task& task = batch[index];
      if (!item.error) {
        task.block->bytes = item.target;
        task.block->buffer = std::move(item.buffer);
      }
      hand_over(task, item.error);
    });
  } catch (...) {  // no memory, no threads
    for (Task& task : batch) {
      if (!task.is_finished) hand_over(task, std::current_exception());
    }
  }
}

void Prefetcher::push(std::vector<Task>& batch) {
  for (Task& task : batch) {
    // One that a reader has got meanwhile needs no pushing.
    const BlockKey key = task.plan.key();
    if (task.is_to_push && blocks_.prefetched().contains(key) && push_(task.hint, task.block)) {
      [[maybe_unused]] const BlockPtr taken = blocks_.prefetched().take(key);
      auto& pushed = is_run(task) ? counters_.readahead_pushed : counters_.prefetch_pushed;
      pushed.fetch_add(1, std::memory_order_relaxed);
      const std::lock_guard lock(mutex_);
      set_state(task, HintList::State::kPushed);
    }
    task.block = nullptr;
  }
}

// On any thread.
void Prefetcher::hand_over(Task& task, const std::exception_ptr& error) {
  const BlockKey key = task.plan.key();
  task.is_finished = true;
  if (!error) {
    blocks_.prefetched().put({key, task.block, task.owner, Clock::now()});
    auto& fetched = is_run(task) ? counters_.readahead_fetched : counters_.prefetch_fetched;
    fetched.fetch_add(1, std::memory_order_relaxed);
  }
  const bool is_awaited = blocks_.release(task.plan, error ? nullptr : task.block, error);
  const std::lock_guard lock(mutex_);
  --in_flight_;
  in_flight_bytes_ -= task.memory_bytes;
  if (!is_run(task) && !lists_.contains(task.owner)) {  // its client has died meanwhile
    count_waste(blocks_.prefetched().drop(task.owner));
    return;
  }
  const bool is_wanted = is_run(task) || state(task) == HintList::State::kFetching;
  // Somebody has asked for it meanwhile: and is about to take it, or had it from elsewhere.
  if (!is_wanted && !is_awaited) {
    blocks_.prefetched().age(key, Clock::now() - options_.ttl + kWatchIntervalMax);
  }
  set_state(task, error || is_awaited ? HintList::State::kDone : HintList::State::kHeld);
  task.is_to_push = !error && !is_awaited && is_wanted && !task.is_marker;
}

bool Prefetcher::is_run(const Task& task) { return (task.owner & kRunOwner) != 0; }

HintList::State Prefetcher::state(const Task& task) const {
  const auto list = lists_.find(task.owner);
  return list == lists_.end() ? HintList::State::kDone : list->second.hints.state(task.index);
}

void Prefetcher::set_state(const Task& task, HintList::State state) {
  const auto list = lists_.find(task.owner);
  if (list != lists_.end()) list->second.hints.set_state(task.index, state);
}

// Who is behind slows down nobody but those before him: what he will want is held, so they
// wait for storage until he has come. But some hints nobody will come for.
void Prefetcher::forget_left_out(Clock::time_point now) {
  if (!is_short_ || now - forgotten_at_ < kLeftOutInterval) return;
  is_short_ = false;
  forgotten_at_ = now;
  for (auto& [id, client] : lists_) {
    client.hints.forget_left_out();
    settle(id, client.hints);
  }
}

void Prefetcher::expire(Clock::time_point now) {
  forget_left_out(now);
  count_waste(blocks_.prefetched().expire(now - options_.ttl));
  for (auto list = lists_.begin(); list != lists_.end();) {
    const Client& client = list->second;
    const bool is_over = client.hints.is_over() || (client.hints.is_finished() &&
                                                    now - client.last_use > options_.ttl);
    list = is_over ? erase(list) : std::next(list);
  }
}

void Prefetcher::count_waste(const std::vector<PrefetchedBlocks::Entry>& dropped) {
  for (const PrefetchedBlocks::Entry& entry : dropped) {
    const bool is_run = (entry.owner & kRunOwner) != 0;
    auto& wasted = is_run ? counters_.readahead_wasted_bytes : counters_.prefetch_wasted_bytes;
    wasted.fetch_add(entry.block->bytes.size(), std::memory_order_relaxed);
    if (is_run) readahead_.note_waste(entry.owner & ~kRunOwner);
  }
}

// What has become of a list's hints is counted, and what nobody will come for goes.
void Prefetcher::settle(ListId id, HintList& hints) {
  count(hints.take_tally());
  for (const uint64_t record : hints.take_forgotten()) {
    if (const auto extent = find_extent(record)) {
      count_waste(blocks_.prefetched().drop(id, whole_plan(*extent, check_data_).key()));
    }
  }
}

void Prefetcher::count(const HintList::Tally& tally) {
  counters_.prefetch_hit.fetch_add(tally.hit_count, std::memory_order_relaxed);
  counters_.prefetch_late.fetch_add(tally.late_count, std::memory_order_relaxed);
  counters_.prefetch_dropped.fetch_add(tally.dropped_count, std::memory_order_relaxed);
}

}  // namespace ffrfs
