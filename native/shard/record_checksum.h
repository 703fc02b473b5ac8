// The only code that compares bytes with a checksum, and that words a mismatch.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/error.h"
#include "shard/extent.h"
#include "shard/shard_set.h"
#include "stats/counters.h"

namespace ffrfs {

// Returns the checksum of a record's bytes, by the polynomial that its extent names; `seed` is the
// result for the bytes before.
[[nodiscard]] uint32_t record_crc(const Extent& extent, std::span<const std::byte> bytes,
                                  uint32_t seed = 0);

// Returns whether `actual`, which is record_crc() of all the record's bytes, is the checksum in the
// header, or in the record's trailer (Extent::trailer_size() bytes).
[[nodiscard]] bool is_sound(const Extent& extent, uint32_t actual,
                            std::span<const std::byte> trailer);

// Throws ChecksumError unless is_sound() and, if ShardSet::keep_checksums() is on, the record's
// checksum is the same as before.
void check_record(const ShardSet& shards, const Extent& extent, uint32_t actual,
                  std::span<const std::byte> trailer, Counters& counters);

// Throws ChecksumError unless `actual`, the CRC-32C of a chunk at `offset` of the record, is the
// one in the index, or the one when the whole record was verified.
void check_chunk(const ShardSet& shards, const Extent& extent, uint64_t offset, uint32_t actual,
                 uint32_t expected_crc32c, Counters& counters);

// Returns "checksum mismatch: the header says 0x…, the bytes give 0x…".
[[nodiscard]] std::string mismatch(const char* witness, uint32_t written, uint32_t found);

// Returns an error "packed.ffr: record 12 (offset 4096, 110000 bytes): REASON", with its fields.
[[nodiscard]] ChecksumError checksum_error(const ShardSet& shards, const Extent& extent,
                                           const std::string& reason);

// Returns "record 12 (offset 4096, 110000 bytes)".
[[nodiscard]] std::string describe(const Extent& extent);

}  // namespace ffrfs
