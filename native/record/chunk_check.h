// Compares what an index says of a large record with the record's bytes as they come by.
//
// One thread.

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
  // `expected`: CRC-32C of each 1 MiB, the last may be shorter; empty: nothing is checked.
  explicit ChunkCheck(std::vector<uint32_t> expected) : expected_(std::move(expected)) {}

  [[nodiscard]] bool is_empty() const { return expected_.empty(); }
  // The record's next bytes.
  void add(std::span<const std::byte> bytes);
  // After the last of them. Throws ChecksumError, which names the first wrong checksum.
  void finish(const ShardSet& shards, const Extent& extent);

 private:
  void end_chunk();

  std::vector<uint32_t> expected_;
  size_t chunk_ = 0;        // the one whose bytes come now
  size_t chunk_bytes_ = 0;  // that have come of it
  uint32_t crc32c_ = 0;
  std::optional<size_t> wrong_;
};

}  // namespace ffrfs
