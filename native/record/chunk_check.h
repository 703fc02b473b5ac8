// Compares an index's checksums of a large record with the record's bytes as they are read.
//
// For one thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "shard/extent.h"
#include "shard/shard_set.h"

namespace ffrfs {

class ChunkCheck {
 public:
  // `expected`: the CRC-32C of each 1 MiB, the last may be shorter; empty: nothing is checked.
  explicit ChunkCheck(std::vector<uint32_t> expected) : expected_(std::move(expected)) {}

  [[nodiscard]] bool is_empty() const { return expected_.empty(); }
  // Adds the record's next bytes.
  void add(std::span<const std::byte> bytes);
  // Must follow the last bytes. Throws ChecksumError, which names the first wrong checksum.
  void finish(const ShardSet& shards, const Extent& extent);

 private:
  void end_chunk();

  std::vector<uint32_t> expected_;
  size_t chunk_ = 0;        // the present chunk
  size_t chunk_bytes_ = 0;  // of the present chunk, so far
  uint32_t crc32c_ = 0;
  std::optional<size_t> wrong_;
};

}  // namespace ffrfs
