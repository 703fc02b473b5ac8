// The location of one record's bytes, and their checksum.

#pragma once

#include <cstddef>
#include <cstdint>

namespace ffrfs {

// How the bytes of an extent are verified. Either checksum covers exactly these bytes.
enum class Checksum : uint8_t {
  kCrc32,         // FFRecord: zlib's polynomial; from the header (Extent::crc32)
  kMaskedCrc32c,  // TFRecord: Castagnoli's, masked, little-endian, in the four bytes behind
};

// Bytes [offset, offset + size) of shard number `shard`, which are record `record` of that shard.
// Made by Shard::extent(), which has checked that they are inside the file, and the trailer, too.
struct Extent {
  uint32_t shard = 0;
  uint64_t record = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  Checksum checksum = Checksum::kCrc32;
  uint32_t crc32 = 0;
  uint32_t header_size = 0;  // size of the record's own header, before the bytes

  // Returns where the record begins in its file, including its header, for messages.
  [[nodiscard]] uint64_t record_offset() const { return offset - header_size; }

  static constexpr size_t kTrailerSizeMax = 4;
  // Returns how many bytes after the extent are needed to verify it.
  [[nodiscard]] size_t trailer_size() const {
    return checksum == Checksum::kMaskedCrc32c ? kTrailerSizeMax : 0;
  }
};

}  // namespace ffrfs
