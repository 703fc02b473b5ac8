#include "fetch/storage_pass.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "io/error.h"
#include "io/wait_check.h"

namespace ffrfs {
namespace {

constexpr uint64_t kSegmentSize = uint64_t{1} << 20;
// Reading this much in vain is cheaper than a second operation.
constexpr uint64_t kMergeGap = 16 << 10;
constexpr size_t kSegmentsInFlight = 64;
constexpr uint64_t kBytesInFlight = uint64_t{32} << 20;
constexpr uint64_t kBytesAhead = uint64_t{32} << 20;

// Copies bytes of a record, from `offset` on, into the item's target; bytes past the target go to
// its trailer.
void put(BatchItem& item, uint64_t offset, std::span<const std::byte> bytes) {
  const uint64_t size = item.target.size();
  if (offset < size) {
    const auto head =
        bytes.first(static_cast<size_t>(std::min<uint64_t>(bytes.size(), size - offset)));
    std::ranges::copy(head, item.target.subspan(static_cast<size_t>(offset)).begin());
    bytes = bytes.subspan(head.size());
    offset = size;
  }
  if (bytes.empty()) return;
  std::ranges::copy(bytes, item.trailer().subspan(static_cast<size_t>(offset - size)).begin());
}

// Sorts by shard, then by offset.
void sort_by_offset(std::vector<size_t>& order, std::span<const BatchItem> items) {
  std::sort(order.begin(), order.end(), [items](size_t a, size_t b) {
    const Extent& left = items[a].extent;
    const Extent& right = items[b].extent;
    return std::tie(left.shard, left.offset) < std::tie(right.shard, right.offset);
  });
}

}  // namespace

StoragePass::StoragePass(Fetcher& fetcher, ReadPort& port, std::span<BatchItem> items, bool check,
                         const ItemDone& done, ReadPort::Urgency urgency)
    : fetcher_(fetcher),
      port_(port),
      items_(items),
      check_(check),
      done_(done),
      part_of_budget_(urgency == ReadPort::Urgency::kBackground ? 0.5 : 1),
      parts_left_(items.size()) {}

void StoragePass::run(std::vector<size_t> missing) {
  plan(std::move(missing));
  make_targets();
  size_t next = 0;
  while (next < segments_.size() || in_flight_ > 0) {
    while (next < segments_.size() && in_flight_ < kSegmentsInFlight &&
           in_flight_bytes_ < kBytesInFlight && reserve(segments_[next])) {
      submit(next++);
    }
    port_.wait_checked();
    port_.poll();
    read_anew();
  }
}

// Returns false if the segment has to wait until one in flight has ended.
bool StoragePass::reserve(Segment& segment) {
  // The memory of a segment that becomes an item's target is accounted by the item's owner.
  if (is_one_item(segment) && items_[parts_[segment.first_part].item].target.empty()) return true;
  const Source& file = fetcher_.shards().shard(segment.shard).file();
  const size_t size = BufferPool::capacity_for(
      static_cast<size_t>(file.align_up(segment.end) - file.align_down(segment.offset)));
  Budget& budget = fetcher_.budget();
  auto memory = budget.try_reserve(Account::kInFlight, size, part_of_budget_);
  if (!memory && in_flight_ > 0) return false;
  segment.memory = memory ? std::move(*memory) : budget.reserve(Account::kInFlight, size);
  return true;
}

void StoragePass::submit(size_t index) {
  const Segment& segment = segments_[index];
  const auto size = static_cast<size_t>(segment.end - segment.offset);
  port_.submit(fetcher_.shards().shard(segment.shard).file(), segment.offset, size,
               [this, index](RawBytes raw) { finish_segment(index, std::move(raw)); },
               segment.bytes);
  ++in_flight_;
  in_flight_bytes_ += size;
}

void StoragePass::plan(std::vector<size_t> missing) {
  sort_by_offset(missing, items_);
  for (const size_t item : missing) {
    cut(item, [&](const Part& part) { add_part(part, items_[item].extent.shard); });
  }
}

// Calls `add` with each part of the item.
template <typename Add> void StoragePass::cut(size_t item, const Add& add) {
  const uint64_t whole = items_[item].whole_size();
  for (uint64_t done = 0; done < whole;) {
    const auto size = static_cast<size_t>(std::min(whole - done, kSegmentSize));
    add({item, done, items_[item].extent.offset + done, size});
    ++parts_left_[item];
    done += size;
  }
}

void StoragePass::add_part(const Part& part, uint32_t shard) {
  const uint64_t end = part.offset + part.size;
  if (!segments_.empty()) {
    Segment& last = segments_.back();
    // The buffer must not move before the segment's begin, either: if a batch asks twice for a
    // large record, the first piece of the second copy comes after the last piece of the first.
    if (last.shard == shard && part.offset >= last.offset && part.offset <= last.end + kMergeGap &&
        std::max(last.end, end) - last.offset <= kSegmentSize) {
      last.end = std::max(last.end, end);
      ++last.part_count;
      parts_.push_back(part);
      return;
    }
  }
  segments_.push_back({shard, part.offset, end, parts_.size(), 1});
  parts_.push_back(part);
}

bool StoragePass::is_one_item(const Segment& segment) const {
  if (segment.part_count != 1) return false;
  const Part& part = parts_[segment.first_part];
  return part.size == items_[part.item].extent.size + items_[part.item].extent.trailer_size();
}

void StoragePass::make_targets() {
  for (const Segment& segment : segments_) {
    if (is_one_item(segment)) continue;
    for (const Part& part : std::span(parts_).subspan(segment.first_part, segment.part_count)) {
      BatchItem& item = items_[part.item];
      if (item.target.empty()) item.make_target(fetcher_.buffers());
    }
  }
}

void StoragePass::adopt(const Segment& segment, RawBytes& raw) {
  BatchItem& item = items_[parts_[segment.first_part].item];
  const auto size = static_cast<size_t>(item.extent.size);
  std::ranges::copy(raw.bytes.subspan(size), item.trailer().begin());
  // The bytes are inside the buffer, which the item owns from now on.
  const auto head = static_cast<size_t>(raw.bytes.data() - raw.buffer.data());
  item.buffer = std::move(raw.buffer);
  item.target = item.buffer.first(head + size).subspan(head);
}

// A merged read failed: retry its parts one by one, so that only the bad one fails.
void StoragePass::try_parts(size_t first_part, size_t part_count, uint32_t shard) {
  for (size_t i = first_part; i < first_part + part_count; ++i) {
    const Part& part = parts_[i];
    segments_.push_back({shard, part.offset, part.offset + part.size, i, 1});
  }
}

void StoragePass::finish_segment(size_t index, RawBytes raw) {
  Segment& segment = segments_[index];
  const Reservation memory = std::move(segment.memory);
  --in_flight_;
  in_flight_bytes_ -= segment.end - segment.offset;
  if (raw.error && segment.part_count > 1) {
    return try_parts(segment.first_part, segment.part_count, segment.shard);
  }
  fetcher_.counters().bytes_storage.fetch_add(raw.error ? 0 : raw.bytes.size(),
                                              std::memory_order_relaxed);
  for (const Part& part : std::span(parts_).subspan(segment.first_part, segment.part_count)) {
    BatchItem& item = items_[part.item];
    if (raw.error) {
      item.error = raw.error;
    } else if (item.target.empty() && is_one_item(segment)) {
      adopt(segment, raw);
    } else {
      put(item, part.item_offset,
          raw.bytes.subspan(static_cast<size_t>(part.offset - segment.offset), part.size));
    }
    if (--parts_left_[part.item] == 0) finish_item(part.item);
  }
}

void StoragePass::finish_item(size_t item_index) {
  BatchItem& item = items_[item_index];
  try {
    if (!item.error && check_) item.check(fetcher_.shards(), fetcher_.counters());
  } catch (const ChecksumError&) {
    if (fetcher_.can_refetch(item.extent) && (is_second_.empty() || !is_second_[item_index])) {
      return anew_.push_back(item_index);
    }
    item.error = std::current_exception();
  }
  done_(item_index);
}

// Deferred, because the caller of finish_item() is still iterating over parts_ and segments_.
void StoragePass::read_anew() {
  if (anew_.empty()) return;
  is_second_.resize(items_.size());
  for (const size_t item : anew_) {
    is_second_[item] = 1;
    cut(item, [&](const Part& part) {
      segments_.push_back({.shard = items_[item].extent.shard,
                           .offset = part.offset,
                           .end = part.offset + part.size,
                           .first_part = parts_.size(),
                           .part_count = 1,
                           .bytes = ReadPort::Bytes::kAnew});
      parts_.push_back(part);
    });
  }
  anew_.clear();
}

BufferedPass::BufferedPass(Fetcher& fetcher, std::span<BatchItem> items, bool check,
                           std::vector<size_t> missing)
    : fetcher_(fetcher), items_(items), check_(check), order_(std::move(missing)) {
  sort_by_offset(order_, items_);
}

// Asks the kernel for that item, and for the items after it as far as the limit allows. The caller
// must not hold the lock, because the kernel may wait for a busy disk.
void BufferedPass::ask(size_t place) {
  size_t begin = 0;
  size_t end = 0;
  {
    const std::lock_guard lock(mutex_);
    begin = asked_;
    while (asked_ < order_.size()) {
      const uint64_t size = items_[order_[asked_]].whole_size();
      if (asked_ > place && bytes_ahead_ + size > kBytesAhead) break;
      bytes_ahead_ += size;
      ++asked_;
    }
    end = asked_;
  }
  for (size_t next = begin; next < end; ++next) {
    const BatchItem& item = items_[order_[next]];
    fetcher_.shards().file_of(item.extent).will_need(item.extent.offset, item.whole_size());
  }
}

void BufferedPass::read_item(size_t place) {
  BatchItem& item = items_[order_[place]];
  try {
    ask(place);
    const Source& file = fetcher_.shards().file_of(item.extent);
    with_second_try(file, item.extent.offset, item.whole_size(), [&] {
      file.read_fully(item.extent.offset, item.target);
      file.read_fully(item.extent.offset + item.extent.size, item.trailer());
      fetcher_.counters().bytes_storage.fetch_add(item.whole_size(), std::memory_order_relaxed);
      if (check_) item.check(fetcher_.shards(), fetcher_.counters());
    });
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    item.error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  bytes_ahead_ -= item.whole_size();
}

}  // namespace ffrfs
