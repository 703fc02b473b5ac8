#include "volume/verification.h"

#include "io/crc.h"
#include "io/hex.h"

namespace ffrfs {

std::string describe(const ShardSet& shards, const Extent& extent) {
  return shards.file_of(extent).path() + ": record " + std::to_string(extent.record) +
         " (offset " + std::to_string(extent.offset) + ", " + std::to_string(extent.size) +
         " bytes)";
}

void check_record(const ShardSet& shards, const Extent& extent, uint32_t actual_crc32,
                  Counters& counters) {
  if (actual_crc32 == extent.crc32) {
    counters.checksums_verified.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  counters.checksums_failed.fetch_add(1, std::memory_order_relaxed);
  throw ChecksumError(describe(shards, extent) + ": checksum mismatch: the header says " +
                      hex(extent.crc32) + ", the bytes give " + hex(actual_crc32) +
                      "; restore the file or pack it again");
}

void check_chunk(const ShardSet& shards, const Extent& extent, uint64_t offset,
                 std::span<const std::byte> bytes, uint32_t expected_crc32c, Counters& counters) {
  const uint32_t actual = crc32c(bytes);
  if (actual == expected_crc32c) {
    counters.checksums_verified.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  counters.checksums_failed.fetch_add(1, std::memory_order_relaxed);
  throw ChecksumError(describe(shards, extent) + ": the bytes at " + std::to_string(offset) +
                      " changed since the record was verified (" + hex(expected_crc32c) + ", now " +
                      hex(actual) + "); was the file overwritten?");
}

}  // namespace ffrfs
