// Chooses the records that the threads of a prefetcher read next. All functions but
// look_up_coming() run under the lock of the prefetcher.

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "prefetch/prefetcher.h"

namespace ffrfs {

// Looks up the index without the lock, so that take_batch() need not wait for it: for as many
// records as may be in flight, because another thread may take the first of them meanwhile.
void Prefetcher::look_up_coming(std::unique_lock<std::mutex>& lock) const {
  if (in_flight_ >= kDepth) return;
  const size_t limit = kDepth - in_flight_;
  std::vector<uint64_t> records = lists_.coming(limit);
  const auto places = readahead_.coming(kBatchRecords, limit);
  if (records.empty() && places.empty()) return;
  lock.unlock();
  for (const auto& place : places) {
    if (const auto record = readahead_.record_at(place)) records.push_back(*record);
  }
  for (const uint64_t record : records) (void)find_extent(shards_, record);
  lock.lock();
}

std::vector<Prefetcher::Task> Prefetcher::take_batch(std::vector<uint64_t>& coming) {
  std::vector<Task> batch;
  if (in_flight_ >= kDepth) return batch;
  const size_t limit = std::min(kBatchRecords, kDepth - in_flight_);
  // Each list with work gets a share, beginning after the list that was served last.
  const size_t wanting = 1 + lists_.wanting_count();
  const size_t share = std::max<size_t>(limit / wanting, 1);
  const size_t far_share = options_.far_records / std::max<size_t>(lists_.size(), 1);
  batch.reserve(limit);  // claimed units must not be lost if memory is short
  try {
    lists_.serve([&](ListId id, HintList& hints) {
      const size_t end = wanting > 2 ? std::min(limit, batch.size() + share) : limit;
      // Taken first, so that later requests are not before the batch in the fetcher's queue.
      if (far_.any()) {
        std::ranges::copy(hints.take_coming(FarFiles::kAheadBytes, far_share),
                          std::back_inserter(coming));
      }
      take_hinted(id, hints, batch, end);
      return batch.size() < limit;
    });
    take_in_order(batch, limit);
  } catch (const std::bad_alloc&) {  // the next batch takes the others
  }
  in_flight_ += batch.size();
  most_in_flight_ = std::max(most_in_flight_, in_flight_);
  counters_.prefetch_depth_max.store(most_in_flight_, std::memory_order_relaxed);
  return batch;
}

void Prefetcher::take_hinted(ListId id, HintList& hints, std::vector<Task>& batch, size_t end) {
  while (batch.size() < end) {
    const auto next = hints.take();
    if (!next) return;
    Task task{.hint = next->hint, .owner = id, .index = next->index, .is_marker = next->is_marker};
    switch (claim(task)) {
      case Claim::kTaken: batch.push_back(std::move(task)); break;
      case Claim::kBusy: hints.set_state(next->index, HintList::State::kHeld); break;
      case Claim::kFull: hints.put_back(next->index); return;
    }
  }
}

void Prefetcher::take_in_order(std::vector<Task>& batch, size_t end) {
  while (batch.size() < end) {
    const auto next = readahead_.take(kBatchRecords);
    if (!next) return;
    Task task{.hint = {.record = next->record, .ino = next->ino},
              .owner = kRunOwner | next->run,
              .is_marker = next->is_marker};
    switch (claim(task)) {
      case Claim::kTaken: batch.push_back(std::move(task)); break;
      case Claim::kBusy: break;
      case Claim::kFull: readahead_.put_back(next->run); return;
    }
  }
}

Prefetcher::Claim Prefetcher::claim(Task& task) {
  const auto extent = find_extent(shards_, task.hint.record);
  if (!extent || extent->size == 0) return Claim::kBusy;  // empty; or the index is damaged or far
  Budget& budget = fetcher_.budget();
  const size_t alignment = shards_.file_of(*extent).alignment();
  if (!task.make_plan(*extent, alignment, check_data_, budget.limit(Account::kAhead))) {
    if (!task.is_run()) counters_.prefetch_too_large.fetch_add(1, std::memory_order_relaxed);
    return Claim::kBusy;
  }
  auto memory = budget.try_reserve(Account::kAhead, task.memory_bytes);
  if (!memory) {
    is_short_ = true;
    return Claim::kFull;
  }
  if (budget.has_waiting()) return Claim::kFull;  // readers go first
  try {
    if (!table_.claim(task.plan)) return Claim::kBusy;
  } catch (const std::bad_alloc&) {
    return Claim::kFull;
  }
  task.memory = std::move(*memory);
  return Claim::kTaken;
}

}  // namespace ffrfs
