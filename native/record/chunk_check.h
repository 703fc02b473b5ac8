// Compares an index's checksums of a large record with the record's bytes as they are read.
//
// For one thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "io/block_checksums.h"
#include "record/index_layout.h"
#include "shard/extent.h"
#include "shard/shard_set.h"

namespace ffrfs {

class ChunkCheck {
 public:
  // `expected`: the CRC-32C of each 1 MiB, the last may be shorter; empty: nothing is checked.
  explicit ChunkCheck(std::vector<uint32_t> expected) : expected_(std::move(expected)) {}

  [[nodiscard]] bool is_empty() const { return expected_.empty(); }
  // Adds the record's next bytes.
  void add(std::span<const std::byte> bytes) {
    if (!is_empty()) found_.add(bytes);
  }
  // Must follow the last bytes. Throws ChecksumError, which names the first wrong checksum.
  void finish(const ShardSet& shards, const Extent& extent) const;

 private:
  std::vector<uint32_t> expected_;
  BlockChecksums found_{kIndexChunkSize};
};

}  // namespace ffrfs
