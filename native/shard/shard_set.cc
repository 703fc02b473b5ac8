#include "shard/shard_set.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "io/error.h"

namespace ffrfs {

ShardSet::ShardSet(std::vector<std::unique_ptr<const Shard>> shards)
    : shards_(std::move(shards)), starts_{0} {
  for (const auto& shard : shards_) {
    // Cannot overflow: each count is below the size of an existing file, divided by 12.
    starts_.push_back(starts_.back() + shard->count());
  }
}

ShardSet ShardSet::join(std::vector<ShardSet> sets) {
  std::vector<std::unique_ptr<const Shard>> all;
  for (ShardSet& set : sets) std::ranges::move(set.shards_, std::back_inserter(all));
  return ShardSet(std::move(all));
}

uint64_t ShardSet::byte_count() const {
  uint64_t total = 0;
  for (const auto& shard : shards_) total += shard->byte_count();
  return total;
}

std::vector<std::string> ShardSet::unverified_paths() const {
  std::vector<std::string> paths;
  for (const auto& shard : shards_) {
    if (!shard->metadata_verified()) paths.push_back(shard->file().path());
  }
  return paths;
}

Extent ShardSet::extent(uint64_t record) const {
  const size_t index = index_of(record);
  Extent extent = shards_[index]->extent(record - starts_[index]);
  extent.shard = static_cast<uint32_t>(index);
  return extent;
}

std::pair<uint32_t, uint64_t> ShardSet::place(uint64_t record) const {
  const size_t index = index_of(record);
  return {static_cast<uint32_t>(index), record - starts_[index]};
}

std::vector<uint64_t> ShardSet::sizes(std::span<const uint64_t> records) const {
  std::vector<uint64_t> sizes;
  sizes.reserve(records.size());
  size_t index = 0;
  for (const uint64_t record : records) {
    // The shard is not looked up for each record, because a listing changes the shard rarely.
    if (record < starts_[index] || record >= starts_[index + 1]) index = index_of(record);
    sizes.push_back(shards_[index]->extent(record - starts_[index]).size);
  }
  return sizes;
}

size_t ShardSet::index_of(uint64_t record) const {
  if (record >= count()) {
    throw RangeError(shards_[0]->file().path() + ": record " + std::to_string(record) +
                     " does not exist: there are " + std::to_string(count()));
  }
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), record);
  return static_cast<size_t>(after - starts_.begin() - 1);
}

}  // namespace ffrfs
