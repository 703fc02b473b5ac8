#include "record/chunk_check.h"

#include <algorithm>
#include <string>

#include "io/error.h"
#include "shard/record_checksum.h"

namespace ffrfs {

void ChunkCheck::finish(const ShardSet& shards, const Extent& extent) const {
  if (is_empty() || expected_ == found_.values()) return;
  const auto same = std::ranges::mismatch(expected_, found_.values()).in1 - expected_.begin();
  throw checksum_error(shards, extent,
                       "the index has a wrong checksum of its bytes at " +
                           std::to_string(static_cast<uint64_t>(same) * kIndexChunkSize) +
                           ", though the record's own matches; make the index anew");
}

}  // namespace ffrfs
