#include "prefetch/far_files.h"

#include <exception>
#include <numeric>
#include <vector>

namespace ffrfs {
namespace {

constexpr size_t kRestRegions = 4;  // beside the pass over one region

bool has_far(const ShardSet& shards) {
  for (size_t i = 0; i < shards.shard_count(); ++i) {
    if (shards.shard(i).file().can_refetch()) return true;
  }
  return false;
}

}  // namespace

std::optional<Extent> find_extent(const ShardSet& shards, uint64_t record) {
  try {
    return shards.extent(record);
  } catch (const FarAway& index) {
    index.will_need();
    return std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

FarFiles::FarFiles(const ShardSet& shards) : shards_(shards), any_(has_far(shards)) {}

void FarFiles::ask_for(std::span<const uint64_t> records) const {
  for (const uint64_t record : records) {
    const auto extent = find_extent(shards_, record);
    if (!extent) continue;
    const Source& file = shards_.file_of(*extent);
    const size_t size = static_cast<size_t>(extent->size) + extent->trailer_size();
    if (!file.is_near(extent->offset, size)) file.will_need(extent->offset, size);
  }
}

void FarFiles::ask_for_rest(ReadAround& around, size_t blocks_max) const {
  if (!any_ || shards_.byte_count() / ReadAround::kRegionBytes > blocks_max) return;
  for (const Region& region : around.take_rest(kRestRegions)) {
    std::vector<uint64_t> records(static_cast<size_t>(region.end - region.begin));
    std::iota(records.begin(), records.end(), region.begin);
    ask_for(records);
  }
}

void FarFiles::find(std::span<const Hint> hints) const {
  for (const Hint& hint : hints) (void)find_extent(shards_, hint.record);
}

}  // namespace ffrfs
