// Where the bytes of one file lie, and what they must hash to.

#pragma once

#include <cstdint>

namespace ffrfs {

// [offset, offset + size) of shard number `shard`, which is record `record` of
// that shard. `crc32` (zlib polynomial) covers exactly these bytes.
// Made by Shard::extent(), which has checked that it lies inside the file.
struct Extent {
  uint32_t shard = 0;
  uint64_t record = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t crc32 = 0;
};

}  // namespace ffrfs
