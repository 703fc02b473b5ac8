#include "volume/file_reads.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

namespace ffrfs {

// One read that may have to wait: its blocks arrive in any order, on any thread.
struct FileReads::Request {
  const Extent extent;
  const uint64_t offset;
  const size_t size;
  const bool is_answer;  // what is read is counted as served
  Done done;
  std::vector<BlockPlan> plans;
  std::vector<BlockPtr> blocks;  // by plan; nullptr: still missing
  std::atomic<size_t> missing{0};
  std::mutex mutex;  // guards `error`
  std::exception_ptr error;

  Request(const Extent& whole, uint64_t begin, size_t count, bool answer)
      : extent(whole), offset(begin), size(count), is_answer(answer) {}

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
      large_(shards, counters, blocks_.queue(), limit_bytes) {}

std::optional<Slice> FileReads::read(const Extent& extent, uint64_t offset, size_t size,
                                     Done done) {
  counters_.reads.fetch_add(1, std::memory_order_relaxed);
  if (size == 0) return Slice{};
  return start(std::make_shared<Request>(extent, offset, size, true), std::move(done));
}

std::optional<Slice> FileReads::load(const Extent& extent, uint64_t offset, size_t size,
                                     Done done) {
  if (size == 0) return Slice{};
  return start(std::make_shared<Request>(extent, offset, size, false), std::move(done));
}

std::optional<Slice> FileReads::start(const std::shared_ptr<Request>& request, Done done) {
  const Extent& extent = request->extent;
  if (extent.size > kWholeRecordSize && find_whole(*request)) return assemble(*request);
  std::shared_ptr<const Fingerprints> prints;
  const bool needs_prints = check_data_ && extent.size > kWholeRecordSize;
  if (needs_prints) prints = large_.find(extent);
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
  request->plans = plan(extent, request->offset, request->size, prints.get());
  find_blocks(*request);
  if (request->missing == 0) return assemble(*request);
  request->done = std::move(done);
  fetch_blocks(request);
  return std::nullopt;
}

std::vector<BlockPlan> FileReads::plan(const Extent& extent, uint64_t offset, size_t size,
                                       const Fingerprints* prints) const {
  if (extent.size <= kWholeRecordSize) return {whole_plan(extent, check_data_)};
  std::vector<BlockPlan> plans;
  for (uint64_t chunk = offset / kChunkSize; chunk * kChunkSize < offset + size; ++chunk) {
    const uint64_t begin = chunk * kChunkSize;
    plans.push_back(
        {.extent = extent,
         .chunk = chunk,
         .begin = begin,
         .size = static_cast<size_t>(std::min(kChunkSize, extent.size - begin)),
         .check = prints ? Check::kChunk : Check::kNothing,
         .crc32c = prints ? (*prints)[static_cast<size_t>(chunk)] : 0});
  }
  return plans;
}

// A large record that was read ahead lies in one block.
bool FileReads::find_whole(Request& request) {
  const BlockPlan plan = whole_plan(request.extent, check_data_);
  BlockPtr block = blocks_.find_in_memory(plan);
  if (!block) return false;
  request.plans = {plan};
  request.blocks = {std::move(block)};
  return true;
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
  if (request.is_answer) {
    counters_.bytes_served.fetch_add(request.size, std::memory_order_relaxed);
  }
  const auto part = [&request](size_t index) {
    const auto [begin, end] = request.wanted(index);
    return request.blocks[index]->bytes.subspan(
        static_cast<size_t>(begin - request.plans[index].begin), static_cast<size_t>(end - begin));
  };
  for (size_t i = 0; i < request.blocks.size(); ++i) {
    const BlockPlan& plan = request.plans[i];
    blocks_.served(plan.key(), plan.size, request.blocks[i], part(i).size());
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

uint64_t FileReads::record_limit_bytes() const {
  // Small ones are held whole by every read.
  return std::max<uint64_t>(blocks_.admission_limit_bytes(), kWholeRecordSize);
}

bool FileReads::use_record(const Extent& extent, Use use,
                           std::function<void(std::exception_ptr)> done) {
  if (extent.size > kWholeRecordSize) {
    use_large(extent, use, done);
    return false;
  }
  const BlockPlan plan = whole_plan(extent, check_data_);
  if (const BlockPtr block = blocks_.find(plan)) {
    blocks_.keep(plan.key(), block);
    use(block->bytes);
    return true;
  }
  blocks_.fetch(plan, [this, key = plan.key(), use = std::move(use), done = std::move(done)](
                          const BlockPtr& block, std::exception_ptr error) {
    try {
      if (!error) {
        blocks_.keep(key, block);
        use(block->bytes);
      }
    } catch (...) {
      error = std::current_exception();
    }
    done(error);
  });
  return false;
}

void FileReads::use_large(const Extent& extent, const Use& use,
                          const std::function<void(std::exception_ptr)>& done) {
  const auto size = static_cast<size_t>(extent.size);
  const auto finish = [this, size, done](std::exception_ptr error) {
    blocks_.leave(size);
    done(error);
  };
  blocks_.admit(size, [this, extent, use, finish] {
    try {
      const BlockPtr block = blocks_.make_block(static_cast<size_t>(extent.size));
      large_.read(extent, block->buffer.first(block->bytes.size()), check_data_,
                  [block, use] { use(block->bytes); }, finish);
    } catch (...) {  // no memory
      post([finish, error = std::current_exception()] { finish(error); });
    }
  });
}

}  // namespace ffrfs
