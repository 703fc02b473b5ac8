#include "volume/verifier.h"

#include <algorithm>
#include <exception>

#include "io/buffer.h"
#include "io/checked.h"
#include "io/error.h"
#include "volume/record_stream.h"

namespace ffrfs {
namespace {

// What is held at a time: a batch of small records, or a piece of a large one.
constexpr uint64_t kBatchSize = uint64_t{16} << 20;
constexpr size_t kBatchRecords = 4096;

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  }
}

class Verifier {
 public:
  Verifier(const ShardSet& shards, BatchReader& batches, Counters& counters)
      : shards_(shards), batches_(batches), counters_(counters) {}

  void add(uint64_t record) {
    const Extent extent = shards_.extent(record);
    if (extent.size > kBatchSize) {
      flush();
      stream(record, extent);
      return;
    }
    if (used_ + extent.size > kBatchSize || items_.size() == kBatchRecords) flush();
    const auto size = static_cast<size_t>(extent.size);
    items_.push_back({extent, memory_.first(kBatchSize).subspan(used_, size), nullptr});
    records_.push_back(record);
    used_ += size;
  }

  void flush() {
    batches_.read(items_, true);
    for (size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].error) bad_.emplace_back(records_[i], text_of(items_[i].error));
    }
    items_.clear();
    records_.clear();
    used_ = 0;
  }

  [[nodiscard]] std::vector<std::pair<uint64_t, std::string>> take() { return std::move(bad_); }

 private:
  void stream(uint64_t record, const Extent& extent) {
    try {
      RecordStream stream(shards_, extent, counters_);
      while (!stream.next().empty()) {
      }
    } catch (const ChecksumError& error) {
      bad_.emplace_back(record, error.what());
    } catch (const StorageError& error) {
      bad_.emplace_back(record, error.what());
    }
  }

  const ShardSet& shards_;
  BatchReader& batches_;
  Counters& counters_;
  Buffer memory_ = BufferPool(0).acquire(kBatchSize);
  size_t used_ = 0;
  std::vector<BatchItem> items_;
  std::vector<uint64_t> records_;
  std::vector<std::pair<uint64_t, std::string>> bad_;
};

}  // namespace

std::vector<std::pair<uint64_t, std::string>> verify_records(const ShardSet& shards,
                                                             BatchReader& batches,
                                                             Counters& counters, uint64_t first,
                                                             uint64_t count) {
  const auto end = checked_add(first, count);
  if (!end || *end > shards.count()) {
    throw RangeError("records up to " + std::to_string(end.value_or(UINT64_MAX)) +
                     " were asked for; there are " + std::to_string(shards.count()));
  }
  Verifier verifier(shards, batches, counters);
  for (uint64_t record = first; record < *end; ++record) verifier.add(record);
  verifier.flush();
  return verifier.take();
}

}  // namespace ffrfs
