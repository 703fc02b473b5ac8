#include "fetch/fetcher.h"

#include <algorithm>
#include <array>
#include <functional>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "fetch/storage_pass.h"
#include "io/crc.h"
#include "io/shared_pass.h"
#include "shard/record_checksum.h"

namespace ffrfs {
namespace {

// Below this, waking another thread costs more than it saves (about 50 µs).
constexpr uint64_t kWorthSharingBytes = 512 << 10;
constexpr size_t kHelperLimit = 7;
// Each piece is checked right after it was read, while it is still in the CPU cache.
constexpr size_t kPieceSize = 128 << 10;

size_t helper_count() {
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::min(cores - 1, kHelperLimit);
}

}  // namespace

Fetcher::Fetcher(const ShardSet& shards, Counters& counters, size_t limit_bytes)
    : shards_(shards),
      counters_(counters),
      budget_(limit_bytes, counters),
      buffers_(budget_.first_limit(Account::kSpare)),
      queue_(buffers_),
      helpers_(std::max<size_t>(1, helper_count())) {}

void Fetcher::limit_cache(size_t limit_bytes) {
  budget_.set_limit(limit_bytes);
  buffers_.limit_free(budget_.limit(Account::kSpare));
}

UnitPtr Fetcher::make_unit(size_t size) {
  auto unit =
      std::make_shared<Unit>(budget_.reserve(Account::kInFlight, BufferPool::capacity_for(size)));
  unit->buffer = buffers_.acquire(size);
  unit->bytes = unit->buffer.first(size);
  return unit;
}

bool Fetcher::read_cached(const Extent& extent, uint64_t offset, std::span<std::byte> target,
                          std::span<std::byte> trailer) {
  if (!shards_.file_of(extent).read_cached(offset, target, trailer)) return false;
  counters_.bytes_page_cache.fetch_add(target.size(), std::memory_order_relaxed);
  return true;
}

bool Fetcher::find_cached(const UnitPlan& plan, std::span<std::byte> target) {
  return is_cached(plan) && read_cached(plan, target);
}

// Allocates the unit only if the page cache seems to hold its bytes.
UnitPtr Fetcher::find_cached(const UnitPlan& plan) {
  if (!is_cached(plan)) return nullptr;
  UnitPtr unit = make_unit(plan.size);
  return read_cached(plan, unit->buffer.first(plan.size)) ? unit : nullptr;
}

bool Fetcher::is_cached(const UnitPlan& plan) const {
  const size_t size = plan.size + plan.trailer_size();
  return size == 0 || shards_.file_of(plan.extent).is_cached(plan.file_offset(), size);
}

bool Fetcher::read_cached(const UnitPlan& plan, std::span<std::byte> target) {
  std::array<std::byte, Extent::kTrailerSizeMax> memory;
  const auto trailer = std::span(memory).first(plan.trailer_size());
  const Source& file = shards_.file_of(plan.extent);
  const uint64_t offset = plan.file_offset();
  uint32_t actual = 0;
  size_t done = 0;
  do {
    const auto piece = target.subspan(done).first(std::min(kPieceSize, target.size() - done));
    const bool is_last = done + piece.size() == target.size();
    const std::array<std::span<std::byte>, 2> parts{piece,
                                                    is_last ? trailer : std::span<std::byte>()};
    if (!file.read_now(offset + done, parts)) {
      return false;
    }
    actual = crc(plan, piece, actual);
    done += piece.size();
  } while (done < target.size());
  counters_.bytes_page_cache.fetch_add(target.size(), std::memory_order_relaxed);
  try {
    check(plan, actual, trailer);
    return true;
  } catch (const ChecksumError&) {
    if (!file.can_refetch()) throw;
  }
  return false;
}

size_t Fetcher::memory_for(const UnitPlan& plan) const {
  const Source& file = shards_.file_of(plan.extent);
  const uint64_t begin = plan.file_offset();
  const uint64_t end = begin + plan.size + plan.trailer_size();
  return BufferPool::capacity_for(static_cast<size_t>(file.align_up(end) - file.align_down(begin)));
}

void Fetcher::start(ReadPort& port, const UnitPlan& plan, Reservation memory, UnitDone done) {
  submit(port, plan, std::make_shared<Unit>(std::move(memory)), std::move(done),
         ReadPort::Bytes::kAnyhow);
}

void Fetcher::submit(ReadPort& port, const UnitPlan& plan, std::shared_ptr<Unit> unit,
                     UnitDone done, ReadPort::Bytes bytes) {
  const auto finish = [this, &port, plan, unit, done = std::move(done), bytes](RawBytes raw) {
    std::exception_ptr error = raw.error;
    try {
      if (!error) {
        counters_.bytes_storage.fetch_add(plan.size, std::memory_order_relaxed);
        unit->bytes = raw.bytes.first(plan.size);
        check(plan, crc(plan, unit->bytes), raw.bytes.subspan(plan.size));
        unit->buffer = std::move(raw.buffer);
        unit->is_from_storage = true;
      }
    } catch (const ChecksumError&) {
      if (bytes == ReadPort::Bytes::kAnyhow && can_refetch(plan.extent)) {
        return submit(port, plan, unit, done, ReadPort::Bytes::kAnew);
      }
      error = std::current_exception();
    } catch (...) {
      error = std::current_exception();
    }
    unit->memory.settle();
    done(error ? nullptr : unit, error);
  };
  try {
    port.submit(shards_.file_of(plan.extent), plan.file_offset(), plan.size + plan.trailer_size(),
                finish, bytes);
  } catch (...) {  // out of memory: readers that wait must get the error
    port.post([finish, error = std::current_exception()] {
      finish(RawBytes{.buffer = {}, .bytes = {}, .error = error});
    });
  }
}

uint32_t Fetcher::crc(const UnitPlan& plan, std::span<const std::byte> bytes, uint32_t seed) {
  switch (plan.check) {
    case Check::kNothing: return 0;
    case Check::kRecord: return record_crc(plan.extent, bytes, seed);
    case Check::kChunk: return crc32c(bytes, seed);
  }
  return 0;
}

void Fetcher::check(const UnitPlan& plan, uint32_t actual, std::span<const std::byte> trailer) {
  switch (plan.check) {
    case Check::kNothing: return;
    case Check::kRecord: return check_record(shards_, plan.extent, actual, trailer, counters_);
    case Check::kChunk:
      return check_chunk(shards_, plan.extent, plan.begin, actual, plan.crc32c, counters_);
  }
}

// Reads adjacent records with one system call. Returns false if they must be read one by one,
// because the page cache does not hold all of them, or a checksum failed that a new download may
// mend.
bool Fetcher::read_cached_run(std::span<BatchItem> run, bool check) noexcept {
  if (!all_cached_.load(std::memory_order_relaxed)) return false;
  std::array<std::span<std::byte>, Source::kPartsMax> parts;
  size_t count = 0;
  uint64_t size = 0;
  for (BatchItem& item : run) {
    if (item.target.empty()) return false;
    parts.at(count++) = item.target;
    if (!item.trailer().empty()) parts.at(count++) = item.trailer();
    size += item.target.size();
  }
  const Extent& first = run.front().extent;
  try {
    if (!shards_.file_of(first).read_now(first.offset, std::span(parts).first(count))) {
      all_cached_.store(false, std::memory_order_relaxed);
      return false;
    }
  } catch (const std::exception&) {
    return false;  // the next step reads again, and reports the error
  }
  counters_.bytes_page_cache.fetch_add(size, std::memory_order_relaxed);
  for (BatchItem& item : run) {
    if (!check_item(item, check)) return false;
  }
  return true;
}

// Returns false if the item is damaged here and can be fetched again from its origin.
bool Fetcher::check_item(BatchItem& item, bool check) noexcept {
  try {
    if (check) item.check(shards_, counters_);
  } catch (...) {
    // An empty range cannot be fetched again, though its checksum may be wrong.
    if (item.whole_size() > 0 && can_refetch(item.extent)) return false;
    item.error = std::current_exception();
  }
  return true;
}

// Returns false if the page cache does not hold all of the item, or if there is an error: the next
// step reads again, and reports it.
bool Fetcher::read_cached_item(BatchItem& item, bool check) noexcept {
  const bool has_target = !item.target.empty();
  try {
    if (!has_target) item.make_target(buffers_);
    if (read_cached(item.extent, item.extent.offset, item.target, item.trailer()) &&
        check_item(item, check)) {
      return true;
    }
  } catch (const std::exception&) {  // out of memory, or a forked child gets no fetcher
  }
  if (!has_target) item.drop_target();
  return false;
}

void Fetcher::read(std::span<BatchItem> items, bool check) {
  const ItemDone ignore = [](size_t) {};
  counters_.reads.fetch_add(items.size(), std::memory_order_relaxed);
  std::vector<size_t> missing = read_cached_items(items, check);
  all_cached_.store(missing.empty(), std::memory_order_relaxed);
  if (!missing.empty()) missing = read_buffered(items, std::move(missing), check);
  if (!missing.empty()) {
    read_storage(items, std::move(missing), check, ignore, Urgency::kSomeoneWaits);
  }
  uint64_t served = 0;
  for (const BatchItem& item : items) served += item.error ? 0 : item.extent.size;
  counters_.bytes_served.fetch_add(served, std::memory_order_relaxed);
}

void Fetcher::load(std::span<BatchItem> items, bool check, const ItemDone& done) {
  std::vector<size_t> missing;
  for (size_t i = 0; i < items.size(); ++i) {
    if (read_cached_item(items[i], check)) {
      done(i);
    } else {
      missing.push_back(i);
    }
  }
  if (!missing.empty()) read_storage(items, std::move(missing), check, done, Urgency::kBackground);
}

// Runs work(0 … count - 1). Helpers take part if the `total` number of bytes makes it worthwhile.
template <typename Work> void Fetcher::share(uint64_t total, size_t count, const Work& work) {
  if (count <= 1 || total < kWorthSharingBytes) {
    for (size_t i = 0; i < count; ++i) work(i);
    return;
  }
  const auto pass = std::make_shared<SharedPass>(count, std::cref(work));
  try {
    for (size_t i = 0; i < std::min(helper_count(), count - 1); ++i) {
      helpers_.submit([pass] { pass->run(); });
    }
  } catch (const std::exception&) {
    // No thread can be created, or no memory is left: those that have begun do all the work.
  }
  pass->run();
  pass->wait();
}

std::vector<size_t> Fetcher::read_cached_items(std::span<BatchItem> items, bool check) {
  const std::vector<size_t> ends = run_ends(items);
  std::vector<char> is_missing(items.size());  // not vector<bool>, because threads write to it
  share(total_size(items), ends.size(), [&](size_t number) {
    const size_t begin = number == 0 ? 0 : ends[number - 1];
    if (read_cached_run(items.subspan(begin, ends[number] - begin), check)) return;
    for (size_t i = begin; i < ends[number]; ++i) {
      is_missing[i] = read_cached_item(items[i], check) ? 0 : 1;
    }
  });
  std::vector<size_t> missing;
  for (size_t i = 0; i < items.size(); ++i) {
    if (is_missing[i]) missing.push_back(i);
  }
  return missing;
}

// Returns the items that must be read past the page cache.
std::vector<size_t> Fetcher::read_buffered(std::span<BatchItem> items, std::vector<size_t> missing,
                                           bool check) {
  const auto others = std::stable_partition(missing.begin(), missing.end(), [&](size_t index) {
    const Extent& extent = items[index].extent;
    return !items[index].target.empty() && shards_.file_of(extent).reads_ahead();
  });
  std::vector<size_t> rest(others, missing.end());
  missing.erase(others, missing.end());
  BufferedPass pass(*this, items, check, std::move(missing));
  share(total_size(items), pass.count(), [&pass](size_t place) { pass.read_item(place); });
  return rest;
}

void Fetcher::read_storage(std::span<BatchItem> items, std::vector<size_t> missing, bool check,
                           const ItemDone& done, Urgency urgency) {
  auto port = take_port(urgency);
  // If this throws, the port is destroyed after its reads in flight have ended.
  StoragePass(*this, *port, items, check, done, urgency).run(std::move(missing));
  return_port(std::move(port), urgency);
}

std::unique_ptr<ReadPort> Fetcher::take_port(Urgency urgency) {
  {
    const std::lock_guard lock(mutex_);
    auto& idle = urgency == Urgency::kBackground ? idle_batch_ports_ : idle_ports_;
    if (!idle.empty()) {
      auto port = std::move(idle.back());
      idle.pop_back();
      return port;
    }
  }
  return std::make_unique<ReadPort>(queue_, ReadPort::Aio::kMayWait, urgency);
}

// Only a port with nothing in flight is returned.
void Fetcher::return_port(std::unique_ptr<ReadPort> port, Urgency urgency) {
  const std::lock_guard lock(mutex_);
  auto& idle = urgency == Urgency::kBackground ? idle_batch_ports_ : idle_ports_;
  idle.push_back(std::move(port));
}

}  // namespace ffrfs
