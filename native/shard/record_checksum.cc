#include "shard/record_checksum.h"

#include "io/crc.h"
#include "io/little_endian.h"

namespace ffrfs {

std::string mismatch(const char* witness, uint32_t written, uint32_t found) {
  return std::string("checksum mismatch: the ") + witness + " says " + hex(written) +
         ", the bytes give " + hex(found);
}

std::string describe(const Extent& extent) {
  return "record " + std::to_string(extent.record) + " (offset " +
         std::to_string(extent.record_offset()) + ", " + std::to_string(extent.size) + " bytes)";
}

ChecksumError checksum_error(const ShardSet& shards, const Extent& extent,
                             const std::string& reason) {
  return {shards.file_of(extent).path(), describe(extent) + ": " + reason, extent.record};
}

uint32_t record_crc(const Extent& extent, std::span<const std::byte> bytes, uint32_t seed) {
  return extent.checksum == Checksum::kCrc32 ? crc32(bytes, seed) : crc32c(bytes, seed);
}

bool is_sound(const Extent& extent, uint32_t actual, std::span<const std::byte> trailer) {
  if (extent.checksum == Checksum::kCrc32) return actual == extent.crc32;
  return mask_crc32c(actual) == load_le<uint32_t>(trailer);
}

void check_record(const ShardSet& shards, const Extent& extent, uint32_t actual,
                  std::span<const std::byte> trailer, Counters& counters) {
  const bool is_right = is_sound(extent, actual, trailer);
  if (is_right && shards.keeps(extent, actual)) {
    counters.checksums_verified.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  counters.checksums_failed.fetch_add(1, std::memory_order_relaxed);
  if (is_right) {
    throw checksum_error(shards, extent,
                         "is sound, but not the record that was read there first: the file "
                         "was overwritten; restore it, or open it anew");
  }
  const bool in_header = extent.checksum == Checksum::kCrc32;
  const uint32_t written = in_header ? extent.crc32 : load_le<uint32_t>(trailer);
  const uint32_t found = in_header ? actual : mask_crc32c(actual);
  throw checksum_error(shards, extent,
                       mismatch(in_header ? "header" : "file", written, found) +
                           "; restore the file or " + (in_header ? "pack" : "write") + " it again");
}

void check_chunk(const ShardSet& shards, const Extent& extent, uint64_t offset, uint32_t actual,
                 uint32_t expected_crc32c, Counters& counters) {
  if (actual == expected_crc32c) {
    counters.checksums_verified.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  counters.checksums_failed.fetch_add(1, std::memory_order_relaxed);
  const std::string place = "the bytes at " + std::to_string(offset);
  if (!shards.shard(extent.shard).chunk_checksums(extent.record).empty()) {
    throw checksum_error(shards, extent,
                         place + " are damaged: " + mismatch("index", expected_crc32c, actual) +
                             "; restore the file or pack it again");
  }
  throw checksum_error(shards, extent,
                       place + " changed since the record was verified (" + hex(expected_crc32c) +
                           ", now " + hex(actual) +
                           "); restore the file, or mount or open it anew");
}

}  // namespace ffrfs
