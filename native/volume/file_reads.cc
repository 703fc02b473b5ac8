#include "volume/file_reads.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

namespace ffrfs {

// One read that may have to wait: its units arrive in any order, on any thread.
struct FileReads::Request {
  const Extent extent;
  const uint64_t offset;
  const size_t size;
  const bool is_answer;  // counts as served to a reader
  const Shape shape;
  Done done;
  std::vector<UnitPlan> plans;
  std::vector<UnitPtr> units;  // by plan; nullptr: not found yet
  std::atomic<size_t> missing{0};
  std::mutex mutex;  // guards `error`
  std::exception_ptr error;

  Request(const Extent& whole, uint64_t begin, size_t count, bool answer, Shape wanted_shape)
      : extent(whole), offset(begin), size(count), is_answer(answer), shape(wanted_shape) {}

  // Returns the part of plan `index` that the request needs, as [begin, end) of the record.
  [[nodiscard]] std::pair<uint64_t, uint64_t> wanted(size_t index) const {
    const UnitPlan& plan = plans[index];
    return {std::max(offset, plan.begin), std::min(offset + size, plan.begin + plan.size)};
  }
  [[nodiscard]] size_t wanted_size(size_t index) const {
    const auto [begin, end] = wanted(index);
    return static_cast<size_t>(end - begin);
  }
};

FileReads::FileReads(const ShardSet& shards, Counters& counters, size_t limit_bytes,
                     bool check_data)
    : check_data_(check_data),
      counters_(counters),
      fetcher_(shards, counters, limit_bytes),
      units_(fetcher_),
      large_(units_) {}

FileReads::AtOnce FileReads::read_now(const Extent& extent, std::span<std::byte> target) {
  if (extent.size > std::min<uint64_t>(target.size(), kWholeRecordSize)) return {};
  const auto bytes = target.first(static_cast<size_t>(extent.size));
  switch (units_.find_cached(whole_plan(extent, check_data_), bytes)) {
    case DemandReader::Cached::kKnown: return {};
    case DemandReader::Cached::kMissing: return {.size = std::nullopt, .missing = extent};
    case DemandReader::Cached::kFilled: break;
  }
  counters_.reads.fetch_add(1, std::memory_order_relaxed);
  counters_.bytes_served.fetch_add(bytes.size(), std::memory_order_relaxed);
  return {.size = bytes.size()};
}

void FileReads::read_missing(const Extent& extent, Done done) {
  counters_.reads.fetch_add(1, std::memory_order_relaxed);
  units_.fetch_missing(whole_plan(extent, check_data_),
                       [this, done = std::move(done)](UnitPtr unit, std::exception_ptr error) {
    if (error) return done(Slice{}, error);
    counters_.bytes_served.fetch_add(unit->bytes.size(), std::memory_order_relaxed);
    const auto bytes = unit->bytes;
    done({std::move(unit), bytes}, nullptr);
  });
}

std::optional<Slice> FileReads::read(const Extent& extent, uint64_t offset, size_t size, Done done,
                                     Shape shape) {
  if (size == 0) {
    counters_.reads.fetch_add(1, std::memory_order_relaxed);
    return Slice{};
  }
  return start(std::make_shared<Request>(extent, offset, size, true, shape), std::move(done));
}

std::optional<Slice> FileReads::load(const Extent& extent, uint64_t offset, size_t size,
                                     Done done) {
  if (size == 0) return Slice{};
  return start(std::make_shared<Request>(extent, offset, size, false, Shape::kOnePiece),
               std::move(done));
}

std::optional<Slice> FileReads::start(const std::shared_ptr<Request>& request, Done done) {
  const Extent& extent = request->extent;
  const bool is_whole = extent.size > kWholeRecordSize && find_whole(*request);
  FingerprintsPtr prints;
  const bool needs_prints = check_data_ && extent.size > kWholeRecordSize && !is_whole;
  if (needs_prints) prints = large_.find(extent);
  // Counted only here: if the fingerprints are far (NearOnly), the read is retried.
  if (request->is_answer) counters_.reads.fetch_add(1, std::memory_order_relaxed);
  if (is_whole) return assemble(*request);
  if (needs_prints && !prints) {
    request->done = std::move(done);
    large_.verify(extent,
                  [this, request](const FingerprintsPtr& made, const std::exception_ptr& error) {
      if (error) {
        request->done(Slice{}, error);
      } else {
        go_on(request, made.get());
      }
    });
    return std::nullopt;
  }
  request->plans = plan(extent, request->offset, request->size, prints.get());
  find_units(*request);
  if (request->missing == 0) return assemble(*request);
  request->done = std::move(done);
  fetch_units(request);
  return std::nullopt;
}

std::vector<UnitPlan> FileReads::plan(const Extent& extent, uint64_t offset, size_t size,
                                      const Fingerprints* prints) const {
  if (extent.size <= kWholeRecordSize) return {whole_plan(extent, check_data_)};
  std::vector<UnitPlan> plans;
  for (uint64_t chunk = offset / kChunkSize; chunk * kChunkSize < offset + size; ++chunk) {
    const uint64_t begin = chunk * kChunkSize;
    plans.push_back({.extent = extent,
                     .kind = UnitKind::kChunk,
                     .chunk = chunk,
                     .begin = begin,
                     .size = static_cast<size_t>(std::min(kChunkSize, extent.size - begin)),
                     .check = prints ? Check::kChunk : Check::kNothing,
                     .crc32c = prints ? prints->chunks[static_cast<size_t>(chunk)] : 0});
  }
  return plans;
}

// Finds a large record that was read ahead as a whole.
bool FileReads::find_whole(Request& request) {
  const UnitPlan plan = whole_plan(request.extent, check_data_);
  UnitPtr unit = units_.find_in_memory(plan, request.size);
  if (!unit) return false;
  request.plans = {plan};
  request.units = {std::move(unit)};
  return true;
}

void FileReads::find_units(Request& request) {
  request.units.resize(request.plans.size());
  for (size_t i = 0; i < request.plans.size(); ++i) {
    request.units[i] = units_.find(request.plans[i], request.wanted_size(i));
    if (!request.units[i]) ++request.missing;
  }
}

void FileReads::fetch_units(const std::shared_ptr<Request>& request) {
  std::vector<size_t> missing;
  for (size_t i = 0; i < request->units.size(); ++i) {
    if (!request->units[i]) missing.push_back(i);
  }
  // Iterates over `missing`, because poll() in another thread may be filling `units`.
  for (const size_t i : missing) {
    units_.fetch(request->plans[i], [this, request, i](UnitPtr unit, std::exception_ptr error) {
      if (error) {
        const std::lock_guard lock(request->mutex);
        request->error = error;
      }
      request->units[i] = std::move(unit);
      if (request->missing.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
      finish(*request);
    });
  }
}

// All units are there, or one has failed. Runs in poll(), where an error that is thrown would be
// lost to the reader, and the units of others with it.
void FileReads::finish(Request& request) {
  Slice slice;
  try {
    if (!request.error) slice = assemble(request);
  } catch (...) {  // no memory for it
    request.error = std::current_exception();
  }
  request.done(std::move(slice), request.error);
}

// Continues in poll() when the fingerprints have arrived; must not throw.
void FileReads::go_on(const std::shared_ptr<Request>& request, const Fingerprints* prints) {
  try {
    request->plans = plan(request->extent, request->offset, request->size, prints);
    find_units(*request);
    if (request->missing > 0) return fetch_units(request);
  } catch (...) {
    request->done(Slice{}, std::current_exception());
    return;
  }
  finish(*request);
}

Slice FileReads::assemble(const Request& request) {
  if (request.is_answer) {
    counters_.bytes_served.fetch_add(request.size, std::memory_order_relaxed);
  }
  const auto part = [&request](size_t index) {
    const auto [begin, end] = request.wanted(index);
    return request.units[index]->bytes.subspan(
        static_cast<size_t>(begin - request.plans[index].begin), static_cast<size_t>(end - begin));
  };
  for (size_t i = 0; i < request.units.size(); ++i) {
    const UnitPlan& plan = request.plans[i];
    units_.served(plan.key(), plan.size, request.units[i], part(i).size());
  }
  if (request.units.size() == 1) return {request.units[0], part(0)};
  if (request.shape == Shape::kParts) {
    Slice whole{request.units[0], part(0)};
    for (size_t i = 1; i < request.units.size(); ++i) {
      whole.rest.push_back({request.units[i], part(i)});
    }
    return whole;
  }

  UnitPtr whole = fetcher_.make_unit(request.size);
  std::byte* target = whole->buffer.data();
  for (size_t i = 0; i < request.units.size(); ++i) {
    const auto bytes = part(i);
    std::memcpy(target, bytes.data(), bytes.size());
    target += bytes.size();
  }
  return {whole, whole->bytes};
}

uint64_t FileReads::record_limit_bytes() const {
  // Every read holds small records whole.
  return std::max<uint64_t>(fetcher_.budget().first_limit(Account::kInFlight), kWholeRecordSize);
}

bool FileReads::use_record(const Extent& extent, Use use,
                           std::function<void(std::exception_ptr)> done) {
  if (extent.size > kWholeRecordSize) {
    large_.read(extent, check_data_, std::move(use), std::move(done));
    return false;
  }
  const UnitPlan plan = whole_plan(extent, check_data_);
  if (const UnitPtr unit = units_.find(plan, plan.size)) {
    units_.table().keep(plan.key(), unit);
    use(unit->bytes);
    return true;
  }
  units_.fetch(plan, [this, key = plan.key(), use = std::move(use), done = std::move(done)](
                         const UnitPtr& unit, std::exception_ptr error) {
    try {
      if (!error) {
        units_.table().keep(key, unit);
        use(unit->bytes);
      }
    } catch (...) {
      error = std::current_exception();
    }
    done(error);
  });
  return false;
}

}  // namespace ffrfs
