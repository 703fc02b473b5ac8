// The one place where bytes are held against a checksum, and where a mismatch gets
// its words.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/error.h"
#include "shard/extent.h"
#include "shard/shard_set.h"
#include "tfrecord/framing.h"
#include "volume/counters.h"

namespace ffrfs {

struct BatchItem;

// Of a record's bytes, by the polynomial that its extent names: pass the previous result
// to go on.
[[nodiscard]] uint32_t record_crc(const Extent& extent, std::span<const std::byte> bytes,
                                  uint32_t seed = 0);

// Whether record_crc() of all the record's bytes, `actual`, is the one that was written: in
// the header, or in the record's trailer (Extent::trailer_size() bytes).
[[nodiscard]] bool is_sound(const Extent& extent, uint32_t actual,
                            std::span<const std::byte> trailer);

// Throws ChecksumError unless it is.
void check_record(const ShardSet& shards, const Extent& extent, uint32_t actual,
                  std::span<const std::byte> trailer, Counters& counters);

// The same of a whole record that was read by a batch.
void check_item(const ShardSet& shards, BatchItem& item, Counters& counters);

// The same of the data of a TFRecord frame that is read without an extent.
void check_frame(const SourceFile& file, FramePlace place, std::span<const std::byte> data,
                 std::span<const std::byte> trailer);

// Throws ChecksumError unless `bytes`, read at `offset` of the record, have the
// CRC-32C that they had when the whole record was verified.
void check_chunk(const ShardSet& shards, const Extent& extent, uint64_t offset,
                 std::span<const std::byte> bytes, uint32_t expected_crc32c, Counters& counters);

// "packed.ffr: record 12 (offset 4096, 110000 bytes)"
[[nodiscard]] std::string describe(const ShardSet& shards, const Extent& extent);

}  // namespace ffrfs
