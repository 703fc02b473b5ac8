#include "fetch/fetcher.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "fetch/storage_pass.h"
#include "io/crc.h"
#include "shard/record_checksum.h"

namespace ffrfs {
namespace {

// Below this, waking another thread costs more than it brings (about 50 µs).
constexpr uint64_t kWorthSharingBytes = 512 << 10;
constexpr size_t kHelperLimit = 7;
// Read and then checked, before the processor's cache has lost it.
constexpr size_t kPieceSize = 128 << 10;

size_t helper_count() {
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::min(cores - 1, kHelperLimit);
}

}  // namespace

void BatchItem::check(const ShardSet& shards, Counters& counters) {
  check_record(shards, extent, record_crc(extent, target), trailer(), counters);
}

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
  auto unit = std::make_shared<Unit>(
      budget_.reserve(Account::kInFlight, BufferPool::capacity_for(size)));
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
  std::array<std::byte, Extent::kTrailerSizeMax> memory;
  const auto trailer = std::span(memory).first(plan.trailer_size());
  const Source& file = shards_.file_of(plan.extent);
  const uint64_t offset = plan.file_offset();
  if (target.size() + trailer.size() > 0 &&
      !file.is_cached(offset, target.size() + trailer.size())) {
    return false;
  }
  uint32_t actual = 0;
  size_t done = 0;
  do {
    const auto piece = target.subspan(done).first(std::min(kPieceSize, target.size() - done));
    const bool is_last = done + piece.size() == target.size();
    if (!file.read_now(offset + done, piece, is_last ? trailer : std::span<std::byte>())) {
      return false;
    }
    actual = crc(plan, piece, actual);
    done += piece.size();
  } while (done < target.size());
  counters_.bytes_page_cache.fetch_add(target.size(), std::memory_order_relaxed);
  check(plan, actual, trailer);
  return true;
}

UnitPtr Fetcher::find_cached(const UnitPlan& plan) {
  UnitPtr unit = make_unit(plan.size);
  return find_cached(plan, unit->buffer.first(plan.size)) ? unit : nullptr;
}

size_t Fetcher::memory_for(const UnitPlan& plan) const {
  const Source& file = shards_.file_of(plan.extent);
  const uint64_t begin = plan.file_offset();
  const uint64_t end = begin + plan.size + plan.trailer_size();
  return BufferPool::capacity_for(static_cast<size_t>(file.align_up(end) - file.align_down(begin)));
}

void Fetcher::start(ReadPort& port, const UnitPlan& plan, Reservation memory, UnitDone done) {
  auto unit = std::make_shared<Unit>(std::move(memory));
  const auto finish = [this, plan, unit, done = std::move(done)](RawBytes raw) {
    std::exception_ptr error = raw.error;
    try {
      if (!error) {
        counters_.bytes_storage.fetch_add(plan.size, std::memory_order_relaxed);
        unit->bytes = raw.bytes.first(plan.size);
        check(plan, crc(plan, unit->bytes), raw.bytes.subspan(plan.size));
        unit->buffer = std::move(raw.buffer);
        unit->is_from_storage = true;
      }
    } catch (...) {
      error = std::current_exception();
    }
    unit->memory.settle();
    done(error ? nullptr : unit, error);
  };
  try {
    port.submit(shards_.file_of(plan.extent), plan.file_offset(), plan.size + plan.trailer_size(),
                finish);
  } catch (...) {  // no memory: those who wait must hear of it
    port.post([finish, error = std::current_exception()] {
      finish(RawBytes{.buffer = {}, .bytes = {}, .error = error});
    });
  }
}

uint32_t Fetcher::crc(const UnitPlan& plan, std::span<const std::byte> bytes, uint32_t seed) {
  switch (plan.check) {
    case Check::kNothing:
      return 0;
    case Check::kRecord:
      return record_crc(plan.extent, bytes, seed);
    case Check::kChunk:
      return crc32c(bytes, seed);
  }
  return 0;
}

void Fetcher::check(const UnitPlan& plan, uint32_t actual, std::span<const std::byte> trailer) {
  switch (plan.check) {
    case Check::kNothing:
      return;
    case Check::kRecord:
      return check_record(shards_, plan.extent, actual, trailer, counters_);
    case Check::kChunk:
      return check_chunk(shards_, plan.extent, plan.begin, actual, plan.crc32c, counters_);
  }
}

// The items of one call, shared by the calling thread and its helpers: whichever is
// free takes the next. A helper that comes late finds nothing left and touches
// nothing of the caller's.
struct Fetcher::CachedPass {
  Fetcher& fetcher;
  const std::span<BatchItem> items;
  const bool check;
  const ItemDone& done;
  std::vector<char> missing;  // by item: not in the page cache (not vector<bool>: threads)
  std::atomic<size_t> next{0};
  std::atomic<size_t> finished{0};

  void run() {
    while (true) {
      const size_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= items.size()) return;
      missing[index] = read_one(items[index]) ? 0 : 1;
      if (!missing[index]) done(index);
      if (finished.fetch_add(1, std::memory_order_release) + 1 == items.size()) {
        finished.notify_all();
      }
    }
  }

  [[nodiscard]] bool read_one(BatchItem& item) const noexcept {
    const bool has_target = !item.target.empty();
    try {
      if (!has_target) item.make_target(fetcher.buffers_);
    } catch (const std::bad_alloc&) {
      return false;  // where it is looked for next, that is an error
    }
    if (!fetcher.read_cached(item.extent, item.extent.offset, item.target, item.trailer())) {
      if (!has_target) item.drop_target();
      return false;
    }
    try {
      if (check) item.check(fetcher.shards_, fetcher.counters_);
    } catch (...) {
      item.error = std::current_exception();
    }
    return true;
  }

  void wait() const {
    for (size_t count = finished.load(std::memory_order_acquire); count < items.size();
         count = finished.load(std::memory_order_acquire)) {
      finished.wait(count, std::memory_order_acquire);
    }
  }
};

void Fetcher::read(std::span<BatchItem> items, bool check) {
  const ItemDone ignore = [](size_t) {};
  counters_.reads.fetch_add(items.size(), std::memory_order_relaxed);
  std::vector<size_t> missing = read_cached_items(items, check, ignore, true);
  if (!missing.empty()) {
    read_storage(items, std::move(missing), check, ignore, Urgency::kSomeoneWaits);
  }
  uint64_t served = 0;
  for (const BatchItem& item : items) served += item.error ? 0 : item.extent.size;
  counters_.bytes_served.fetch_add(served, std::memory_order_relaxed);
}

void Fetcher::load(std::span<BatchItem> items, bool check, const ItemDone& done) {
  std::vector<size_t> missing = read_cached_items(items, check, done, false);
  if (!missing.empty()) read_storage(items, std::move(missing), check, done, Urgency::kBackground);
}

void Fetcher::call_helpers(const std::shared_ptr<CachedPass>& pass, size_t count) {
  try {
    for (size_t i = 0; i < count; ++i) helpers_.submit([pass] { pass->run(); });
  } catch (const std::system_error&) {
    // No threads to be had: then this one does it all.
  }
}

std::vector<size_t> Fetcher::read_cached_items(std::span<BatchItem> items, bool check,
                                               const ItemDone& done, bool is_shared) {
  auto pass = std::make_shared<CachedPass>(*this, items, check, done);
  pass->missing.resize(items.size());
  uint64_t total = 0;
  for (const BatchItem& item : items) total += item.extent.size;
  if (is_shared && items.size() > 1 && total >= kWorthSharingBytes) {
    call_helpers(pass, std::min(helper_count(), items.size() - 1));
  }
  pass->run();
  pass->wait();

  std::vector<size_t> missing;
  for (size_t i = 0; i < items.size(); ++i) {
    if (pass->missing[i]) missing.push_back(i);
  }
  return missing;
}

void Fetcher::read_storage(std::span<BatchItem> items, std::vector<size_t> missing, bool check,
                           const ItemDone& done, Urgency urgency) {
  auto port = take_port(urgency);
  // Should this throw, the port goes down with it, after what is in flight.
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

// Only a port with nothing in flight comes back.
void Fetcher::return_port(std::unique_ptr<ReadPort> port, Urgency urgency) {
  const std::lock_guard lock(mutex_);
  auto& idle = urgency == Urgency::kBackground ? idle_batch_ports_ : idle_ports_;
  idle.push_back(std::move(port));
}

}  // namespace ffrfs
