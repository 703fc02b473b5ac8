#include "fetch/batch.h"

#include "shard/record_checksum.h"

namespace ffrfs {
namespace {

// A longer run is cut, so that several threads can share it.
constexpr uint64_t kRunSizeMax = 64 << 10;

}  // namespace

void BatchItem::check(const ShardSet& shards, Counters& counters) {
  check_record(shards, extent, record_crc(extent, target), trailer(), counters);
}

uint64_t total_size(std::span<const BatchItem> items) {
  uint64_t total = 0;
  for (const BatchItem& item : items) total += item.extent.size;
  return total;
}

std::vector<size_t> run_ends(std::span<const BatchItem> items) {
  std::vector<size_t> ends;
  uint64_t size = 0;
  size_t parts = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const Extent& extent = items[i].extent;
    const size_t part_count = extent.trailer_size() > 0 ? 2 : 1;
    const bool follows = i > 0 && extent.shard == items[i - 1].extent.shard &&
                         extent.offset == items[i - 1].extent.offset + items[i - 1].whole_size();
    if (i > 0 && !(follows && size + items[i].whole_size() <= kRunSizeMax &&
                   parts + part_count <= Source::kPartsMax)) {
      ends.push_back(i);
      size = 0;
      parts = 0;
    }
    size += items[i].whole_size();
    parts += part_count;
  }
  if (!items.empty()) ends.push_back(items.size());
  return ends;
}

}  // namespace ffrfs
