#include "volume/large_records.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "io/crc.h"
#include "volume/block.h"
#include "volume/record_stream.h"

namespace ffrfs {
namespace {

// Several, because one may be waiting for a slow disk; few, because each keeps a core busy
// while its bytes are cached, and holds some pieces in memory: a third of its share of the
// limit, which it is not counted in.
constexpr size_t kPassLimit = 4;
constexpr size_t kLimitPerPass = size_t{16} << 20;

// A piece of the stream is one chunk: each fingerprint is one call.
static_assert(RecordStream::kPieceSize == kChunkSize);

Fingerprints fingerprint(const ShardSet& shards, const Extent& extent, Counters& counters) {
  Fingerprints prints;
  prints.reserve(static_cast<size_t>(extent.size / kChunkSize + 1));
  RecordStream stream(shards, extent, counters);
  for (auto piece = stream.next(); !piece.empty(); piece = stream.next()) {
    prints.push_back(crc32c(piece));
  }
  return prints;
}

// Those that stand in the pack's index; nullptr: none that can be used. Then the record is
// verified by its own checksum.
std::shared_ptr<const Fingerprints> written_fingerprints(const Shard& shard,
                                                         const Extent& extent) {
  try {
    Fingerprints prints = shard.chunk_checksums(extent.record);
    if (prints.size() != (extent.size + kChunkSize - 1) / kChunkSize) return nullptr;
    return std::make_shared<const Fingerprints>(std::move(prints));
  } catch (const std::runtime_error&) {  // the index is damaged there
    return nullptr;
  }
}

}  // namespace

LargeRecords::LargeRecords(const ShardSet& shards, Counters& counters, ReadQueue& queue,
                           size_t limit_bytes)
    : shards_(shards),
      counters_(counters),
      queue_(queue),
      threads_(std::clamp<size_t>(limit_bytes / kLimitPerPass, 1, kPassLimit)) {}

std::shared_ptr<const Fingerprints> LargeRecords::find(const Extent& extent) {
  const Key key{extent.shard, extent.record};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = verified_.find(key); found != verified_.end()) return found->second;
  }
  auto written = written_fingerprints(shards_.shard(extent.shard), extent);
  if (!written) return nullptr;
  const std::lock_guard lock(mutex_);
  return verified_.try_emplace(key, std::move(written)).first->second;
}

void LargeRecords::verify(const Extent& extent, Done done) {
  const std::lock_guard lock(mutex_);
  auto [pass, first] = passes_.try_emplace({extent.shard, extent.record});
  pass->second.waiting.push_back(std::move(done));
  if (!first) return;
  try {
    threads_.submit([this, extent] { run_pass(extent); });
  } catch (...) {
    passes_.erase(pass);
    throw;
  }
}

void LargeRecords::run_pass(const Extent& extent) {
  std::shared_ptr<const Fingerprints> prints;
  std::exception_ptr error;
  try {
    prints = std::make_shared<const Fingerprints>(fingerprint(shards_, extent, counters_));
  } catch (...) {
    error = std::current_exception();
  }
  Pass pass;
  {
    const std::lock_guard lock(mutex_);
    const Key key{extent.shard, extent.record};
    if (prints) verified_[key] = prints;
    pass = std::move(passes_.at(key));
    passes_.erase(key);
  }
  for (Done& done : pass.waiting) {
    queue_.post([done = std::move(done), prints, error] { done(prints, error); });
  }
}

void LargeRecords::read(const Extent& extent, std::span<std::byte> target, bool check,
                        std::function<void()> use, std::function<void(std::exception_ptr)> done) {
  threads_.submit([this, extent, target, check, use = std::move(use), done = std::move(done)] {
    std::exception_ptr error;
    try {
      fill(extent, target, check);
      use();
    } catch (...) {
      error = std::current_exception();
    }
    queue_.post([done, error] { done(error); });
  });
}

void LargeRecords::fill(const Extent& extent, std::span<std::byte> target, bool check) {
  Fingerprints prints;
  RecordStream stream(shards_, extent, counters_);
  for (auto rest = target; !rest.empty();) {
    const auto piece = stream.next();
    std::memcpy(rest.data(), piece.data(), piece.size());
    if (check) prints.push_back(crc32c(piece));
    rest = rest.subspan(piece.size());
  }
  if (!check) return;
  [[maybe_unused]] const auto end = stream.next();  // throws if the checksum does not match
  const std::lock_guard lock(mutex_);
  verified_[{extent.shard, extent.record}] =
      std::make_shared<const Fingerprints>(std::move(prints));
}

}  // namespace ffrfs
