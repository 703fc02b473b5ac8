#include "prefetch/prefetcher.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "prefetch/region_pass.h"
#include "prefetch/warming.h"

namespace ffrfs {
namespace {

constexpr size_t kHalfCache = 2;  // times far_records, which take at most a quarter of the cache
constexpr auto kLeftOutInterval = std::chrono::milliseconds(500);
constexpr auto kWatchIntervalMin = std::chrono::milliseconds(10);
constexpr auto kWatchIntervalMax = std::chrono::milliseconds(100);

}  // namespace

Prefetcher::Prefetcher(const Tree& tree, bool has_files, DemandReader& reader,
                       const PrefetchOptions& options, bool check_data, PushRecord push)
    : reader_(reader),
      fetcher_(reader.fetcher()),
      table_(reader.table()),
      shards_(fetcher_.shards()),
      counters_(fetcher_.counters()),
      options_(options),
      check_data_(check_data),
      push_(std::move(push)),
      far_(shards_),
      tree_(tree),
      has_files_(has_files),
      around_({.records = shards_.count(),
               .bytes = shards_.byte_count(),
               .files = has_files ? tree.file_count() : 0},
              options.around, counters_),
      lists_(options.window_records, options.window_bytes, kBatchRecords,
             [this](uint64_t record) {
               // A record whose index is damaged is not read ahead: its reader gets the error.
               const auto extent = find_extent(shards_, record);
               return extent ? extent->size : 0;
             }, counters_),
      readahead_(tree, shards_.count(), has_files, options.window_records) {
  try {
    threads_.emplace_back([this] { watch(); });
    for (size_t i = 0; i < ReadAround::kThreads; ++i) threads_.emplace_back([this] { run(); });
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

void Prefetcher::follow_limit() {
  const std::lock_guard lock(mutex_);
  count_waste(table_.shrink_ahead());
  work_.notify_all();
}

// Lists of hints.

Prefetcher::ListId Prefetcher::open_list() {
  const std::lock_guard lock(mutex_);
  if (lists_.make_room()) note_freed();
  return lists_.open();
}

size_t Prefetcher::add(ListId list, std::span<const Hint> hints) {
  far_.find(hints);  // without the lock, because it may wait
  const NearOnly here;
  const std::lock_guard lock(mutex_);
  const size_t room = lists_.add(list, hints);
  if (lists_.contains(list)) work_.notify_all();
  return room;
}

void Prefetcher::finish(ListId list, bool has_more) {
  const std::lock_guard lock(mutex_);
  if (lists_.finish(list, has_more)) work_.notify_all();
}

void Prefetcher::drop(ListId list) {
  const std::lock_guard lock(mutex_);
  if (lists_.drop(list)) note_freed();
  count_waste(table_.drop_ahead(list));
}

void Prefetcher::on_room(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  on_room_ = std::move(callback);
}

void Prefetcher::note_freed() {
  has_freed_ = true;
  watch_.notify_one();
}

// Observing readers.

void Prefetcher::note_read(const Extent& extent, Found found) {
  if (found == Found::kKept) return;
  const uint64_t record = shards_.start(extent.shard) + extent.record;
  if (found == Found::kPageCache && !lists_.any()) {
    if (around_.note_read(record, true)) wake_one();
    return;
  }
  std::function<void()> has_room;
  {
    const NearOnly here;
    const Ino ino = found != Found::kPageCache ? readahead_.file_of(record) : 0;  // may wait
    const std::lock_guard lock(mutex_);
    const auto [is_hinted, is_roomy] = lists_.note_read(record, found == Found::kPrefetched);
    if (is_roomy) has_room = on_room_;
    drop_forgotten();
    if (is_hinted && found == Found::kPageCache) {
      // The record may have arrived after the look-up in memory, and then no reader takes it.
      const UnitKey key = whole_plan(extent, check_data_).key();
      lists_.for_each_id([&](ListId id) { count_waste(table_.drop_ahead(id, key)); });
    }
    if (!is_hinted && found != Found::kPageCache) {
      if (found == Found::kPrefetched)
        counters_.readahead_hit.fetch_add(1, std::memory_order_relaxed);
      const bool is_alone = !readahead_.note_read(record, ino) && !lists_.any();
      if (is_alone && found == Found::kMissing) around_.note_read(record, false);
    }
    if (has_work()) work_.notify_one();
  }
  if (has_room) has_room();
}

void Prefetcher::warm(Ino ino) {
  const std::lock_guard lock(mutex_);
  to_warm_.push_back(ino);
  work_.notify_one();
}

std::optional<Ino> Prefetcher::take_to_warm() {
  if (to_warm_.empty()) return std::nullopt;
  const Ino ino = to_warm_.front();
  to_warm_.pop_front();
  return ino;
}

void Prefetcher::wake_one() {
  const std::lock_guard lock(mutex_);  // else a thread that is about to wait would miss it
  work_.notify_one();
}

// The threads.

void Prefetcher::run() {
  while (true) {
    try {
      if (!read_next()) return;
    } catch (const std::bad_alloc&) {  // reading ahead is only advice: tries again later
      std::unique_lock lock(mutex_);
      if (work_.wait_for(lock, kWatchIntervalMax, [this] { return stopping_; })) return;
    }
  }
}

// Waits for work, and does it. Returns false once it must stop.
bool Prefetcher::read_next() {
  std::vector<Task> batch;
  std::vector<uint64_t> coming;
  std::optional<Region> region;
  std::optional<Ino> top;
  {
    const NearOnly here;
    std::unique_lock lock(mutex_);
    while (true) {
      look_up_coming(lock);
      if (stopping_) return false;
      if (!(batch = take_batch(coming)).empty()) break;
      if ((region = around_.take()) || (top = take_to_warm())) break;
      work_.wait(lock);
    }
    watch_.notify_one();
  }
  if (top) {
    warm_now(*top);
  } else if (region) {
    read_around(*region);
  } else {
    read_batch(batch, coming);
  }
  return true;
}

void Prefetcher::warm_now(Ino top) {
  try {
    around_.warm(records_below(tree_, shards_.count(), top));
  } catch (const std::bad_alloc&) {
    warm(top);  // tries again later
    throw;
  }
  work_.notify_all();
}

void Prefetcher::read_batch(std::vector<Task>& batch, std::span<const uint64_t> coming) {
  try {
    far_.ask_for(coming);
  } catch (const std::bad_alloc&) {  // readers may wait for the batch, which has been claimed
  }
  // Each record is handed over as soon as it has arrived, because readers may be waiting.
  read_tasks(batch, fetcher_, check_data_,
             [this](Task& task, const std::exception_ptr& error) { hand_over(task, error); });
  push(batch);
}

void Prefetcher::read_around(const Region& region) {
  const NearOnly here;
  RegionPass pass(tree_, has_files_, reader_, check_data_, around_, push_);
  const auto begin = Clock::now();
  ReadAround::Outcome outcome = pass.run(region);
  outcome.elapsed = Clock::now() - begin;
  around_.finish(region, outcome);
  far_.ask_for_rest(around_, kHalfCache * options_.far_records);
}

void Prefetcher::watch() {
  const auto interval =
      std::clamp<Clock::duration>(options_.ttl, kWatchIntervalMin, kWatchIntervalMax);
  const NearOnly here;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const bool is_idle = in_flight_ == 0 && lists_.empty() && !table_.has_ahead();
    if (is_idle && !has_freed_) {
      watch_.wait(lock);
    } else {
      watch_.wait_for(lock, interval);
    }
    try {
      look_after(lock);
    } catch (const std::bad_alloc&) {  // tries again at the next tick
      if (!lock.owns_lock()) lock.lock();
    }
    if (has_work()) work_.notify_one();
  }
}

void Prefetcher::look_after(std::unique_lock<std::mutex>& lock) {
  const auto has_room = expire(Clock::now()) ? on_room_ : nullptr;
  // Hints are many small allocations. The C library would keep their memory, as the pool keeps its
  // buffers.
  const bool is_unused = in_flight_ == 0 && lists_.empty() && !table_.has_ahead();
  const bool is_to_give_back = is_unused && std::exchange(has_freed_, false);
  lock.unlock();
  if (has_room) has_room();
  if (is_to_give_back) fetcher_.buffers().release();
  // A claimed read may be delayed by its neighbours in a merged read.
  reader_.overtake();
  lock.lock();
}

// Needs the lock, as do all functions that begin with "take".
bool Prefetcher::has_work() const {
  return around_.has_work() ||
         (in_flight_ < kDepth && (readahead_.wants(kBatchRecords) || lists_.wants()));
}

void Prefetcher::push(std::vector<Task>& batch) {
  for (Task& task : batch) {
    // A unit that a reader has taken meanwhile is not pushed.
    const UnitKey key = task.plan.key();
    if (task.is_to_push && table_.is_ahead(key) && push_(task.hint, task.unit->bytes)) {
      [[maybe_unused]] const UnitPtr taken = table_.take_ahead(key);
      auto& pushed = task.is_run() ? counters_.readahead_pushed : counters_.prefetch_pushed;
      pushed.fetch_add(1, std::memory_order_relaxed);
      const std::lock_guard lock(mutex_);
      lists_.set_state(task.owner, task.index, HintList::State::kPushed);
    }
    task.unit = nullptr;
  }
}

// Called on any thread.
void Prefetcher::hand_over(Task& task, const std::exception_ptr& error) {
  const UnitKey key = task.plan.key();
  task.is_finished = true;
  const bool is_given_up = !task.unit && !error;
  const bool is_read = task.unit && !error;
  if (!is_read) {
    task.memory = {};
    task.unit = nullptr;
  } else {
    auto& fetched = task.is_run() ? counters_.readahead_fetched : counters_.prefetch_fetched;
    fetched.fetch_add(1, std::memory_order_relaxed);
  }
  const bool is_awaited =
      is_given_up ? reader_.give_up(key) : reader_.arrive(key, task.unit, task.owner, error);
  const std::lock_guard lock(mutex_);
  --in_flight_;
  if (!task.is_run() && !lists_.contains(task.owner)) {  // its client has died meanwhile
    count_waste(table_.drop_ahead(task.owner));
    return;
  }
  const bool is_wanted =
      task.is_run() || lists_.state(task.owner, task.index) == HintList::State::kFetching;
  // A reader has asked for the record meanwhile, and takes it now or had it from elsewhere.
  if (!is_wanted && !is_awaited) {
    table_.age(key, Clock::now() - options_.ttl + kWatchIntervalMax);
  }
  lists_.set_state(task.owner, task.index,
                   !is_read || is_awaited ? HintList::State::kDone : HintList::State::kHeld);
  task.is_to_push = is_read && !is_awaited && is_wanted && !task.is_marker;
}

// Gives up the hints that no reader will come for, if memory is short. A reader that lags behind
// loses nothing: its records stay held, and the others wait for storage until it catches up. But
// some hints are never read, and some clients are gone. Returns whether a list was dropped.
bool Prefetcher::forget_left_out(Clock::time_point now) {
  if (!is_short_ || now - forgotten_at_ < kLeftOutInterval) return false;
  is_short_ = false;
  forgotten_at_ = now;
  lists_.forget_left_out();
  drop_forgotten();
  const auto list = lists_.drop_idle(now - options_.idle);
  if (list) count_waste(table_.drop_ahead(*list));
  return list.has_value();
}

// Returns whether lists have expired.
bool Prefetcher::expire(Clock::time_point now) {
  const bool has_dropped = forget_left_out(now);
  count_waste(table_.expire(now - options_.ttl));
  if (!lists_.expire(now, options_.ttl) && !has_dropped) return false;
  note_freed();
  return true;
}

void Prefetcher::count_waste(const std::vector<UnitTable::Ahead>& dropped) {
  for (const UnitTable::Ahead& entry : dropped) {
    const bool is_run = is_run_owner(entry.owner);
    auto& wasted = is_run ? counters_.readahead_wasted_bytes : counters_.prefetch_wasted_bytes;
    wasted.fetch_add(entry.unit->bytes.size(), std::memory_order_relaxed);
    if (is_run) readahead_.note_waste(entry.owner & ~kRunOwner);
  }
}

// Drops held records that no reader will come for.
void Prefetcher::drop_forgotten() {
  for (const auto& [list, record] : lists_.take_forgotten()) {
    const auto [shard, number] = shards_.place(record);
    count_waste(table_.drop_ahead(list, {.shard = shard, .record = number}));
  }
}

}  // namespace ffrfs
