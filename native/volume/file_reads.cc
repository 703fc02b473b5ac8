#include "volume/file_reads.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

namespace ffrfs {

// One read that may have to wait: its blocks arrive in any order, on any thread.
struct FileReads::Request {
  Extent extent;
  uint64_t offset = 0;
  size_t size = 0;
  Done done;
  std::vector<BlockPlan> plans;
  std::vector<BlockPtr> blocks;  // by plan; nullptr: still missing
  std::atomic<size_t> missing{0};
  std::mutex mutex;  // guards `error`
  std::exception_ptr error;

  // The part of plan `index` that was asked for, as [begin, end) of the record.
  [[nodiscard]] std::pair<uint64_t, uint64_t> wanted(size_t index) const {
    const BlockPlan& plan = plans[index];
    return {std::max(offset, plan.begin), std::min(offset + size, plan.begin + plan.size)};
  }
};

FileReads::FileReads(const ShardSet& shards, Counters& counters, size_t limit_bytes,
                     bool check_data)
    : check_data_(check_data),
      counters_(counters),
      blocks_(shards, counters, limit_bytes),
      large_(shards, counters, blocks_.queue()) {}

std::optional<Slice> FileReads::read(const Extent& extent, uint64_t offset, size_t size,
                                     Done done) {
  counters_.reads.fetch_add(1, std::memory_order_relaxed);
  if (size == 0) return Slice{};
  std::shared_ptr<const Fingerprints> prints;
  const bool needs_prints = check_data_ && extent.size > kWholeRecordSize;
  if (needs_prints) prints = large_.find(extent);

  auto request = std::make_shared<Request>();
  request->extent = extent;
  request->offset = offset;
  request->size = size;
  if (needs_prints && !prints) {
    request->done = std::move(done);
    large_.verify(extent, [this, request](std::shared_ptr<const Fingerprints> made,
                                          std::exception_ptr error) {
      if (error) {
        request->done(Slice{}, error);
      } else {
        go_on(request, made.get());
      }
    });
    return std::nullopt;
  }
  request->plans = plan(extent, offset, size, prints.get());
  find_blocks(*request);
  if (request->missing == 0) return assemble(*request);
  request->done = std::move(done);
  fetch_blocks(request);
  return std::nullopt;
}

std::vector<BlockPlan> FileReads::plan(const Extent& extent, uint64_t offset, size_t size,
                                       const Fingerprints* prints) const {
  if (extent.size <= kWholeRecordSize) {
    const Check check = check_data_ ? Check::kRecordCrc32 : Check::kNothing;
    return {{.extent = extent, .size = static_cast<size_t>(extent.size), .check = check}};
  }
  std::vector<BlockPlan> plans;
  for (uint64_t chunk = offset / kChunkSize; chunk * kChunkSize < offset + size; ++chunk) {
    const uint64_t begin = chunk * kChunkSize;
    plans.push_back(
        {.extent = extent,
         .chunk = chunk,
         .begin = begin,
         .size = static_cast<size_t>(std::min(kChunkSize, extent.size - begin)),
         .check = prints ? Check::kChunkCrc32c : Check::kNothing,
         .crc32c = prints ? (*prints)[static_cast<size_t>(chunk)] : 0});
  }
  return plans;
}

void FileReads::find_blocks(Request& request) {
  request.blocks.resize(request.plans.size());
  for (size_t i = 0; i < request.plans.size(); ++i) {
    request.blocks[i] = blocks_.find(request.plans[i]);
    if (!request.blocks[i]) ++request.missing;
  }
}

void FileReads::fetch_blocks(const std::shared_ptr<Request>& request) {
  std::vector<size_t> missing;
  for (size_t i = 0; i < request->blocks.size(); ++i) {
    if (!request->blocks[i]) missing.push_back(i);
  }
  // From the list, not from `blocks`: another thread's poll() may be filling those.
  for (const size_t i : missing) {
    blocks_.fetch(request->plans[i], [this, request, i](BlockPtr block, std::exception_ptr error) {
      if (error) {
        const std::lock_guard lock(request->mutex);
        request->error = error;
      }
      request->blocks[i] = std::move(block);
      if (request->missing.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
      Slice slice;
      if (!request->error) slice = assemble(*request);
      request->done(std::move(slice), request->error);
    });
  }
}

// After the fingerprints have arrived: in poll(), where nothing may be thrown.
void FileReads::go_on(const std::shared_ptr<Request>& request, const Fingerprints* prints) {
  try {
    request->plans = plan(request->extent, request->offset, request->size, prints);
    find_blocks(*request);
  } catch (...) {
    request->done(Slice{}, std::current_exception());
    return;
  }
  if (request->missing == 0) {
    request->done(assemble(*request), nullptr);
  } else {
    fetch_blocks(request);
  }
}

Slice FileReads::assemble(const Request& request) {
  counters_.bytes_served.fetch_add(request.size, std::memory_order_relaxed);
  const auto part = [&request](size_t index) {
    const auto [begin, end] = request.wanted(index);
    return request.blocks[index]->bytes.subspan(
        static_cast<size_t>(begin - request.plans[index].begin), static_cast<size_t>(end - begin));
  };
  for (size_t i = 0; i < request.blocks.size(); ++i) {
    blocks_.served(request.plans[i], request.blocks[i], part(i).size());
  }
  if (request.blocks.size() == 1) return {request.blocks[0], part(0)};

  BlockPtr whole = blocks_.make_block(request.size);
  std::byte* target = whole->buffer.data();
  for (size_t i = 0; i < request.blocks.size(); ++i) {
    const auto bytes = part(i);
    std::memcpy(target, bytes.data(), bytes.size());
    target += bytes.size();
  }
  return {whole, whole->bytes};
}

}  // namespace ffrfs
