// The one place where bytes are held against a checksum, and where a mismatch gets
// its words.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/error.h"
#include "record/extent.h"
#include "record/shard_set.h"
#include "volume/counters.h"

namespace ffrfs {

// Throws ChecksumError unless the record's CRC-32 is `actual_crc32`.
void check_record(const ShardSet& shards, const Extent& extent, uint32_t actual_crc32,
                  Counters& counters);

// Throws ChecksumError unless `bytes`, read at `offset` of the record, have the
// CRC-32C that they had when the whole record was verified.
void check_chunk(const ShardSet& shards, const Extent& extent, uint64_t offset,
                 std::span<const std::byte> bytes, uint32_t expected_crc32c, Counters& counters);

// "packed.ffr: record 12 (offset 4096, 110000 bytes)"
[[nodiscard]] std::string describe(const ShardSet& shards, const Extent& extent);

}  // namespace ffrfs
