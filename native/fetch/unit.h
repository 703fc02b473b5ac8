// The unit of fetching and verifying: a whole record, or a chunk of a large one.
//
//   record <= kWholeRecordSize      [ block 0, checked by the record's checksum ]
//   larger                          [ chunk 0 ][ chunk 1 ][ ... ]  kChunkSize each,
//                                   checked by fingerprints (large_records.h); or whole,
//                                   if it was read ahead

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "io/buffer.h"
#include "shard/extent.h"

namespace ffrfs {

// Up to here a record is held whole while it is read: most files of a data set take
// one read from storage, and a photograph of some megabytes is not read twice.
inline constexpr uint64_t kWholeRecordSize = uint64_t{4} << 20;
inline constexpr uint64_t kChunkSize = uint64_t{1} << 20;

// All of a record that is larger than kWholeRecordSize, in one block.
inline constexpr uint64_t kWholeChunk = uint64_t{1} << 62;

struct BlockKey {
  uint32_t shard = 0;
  uint64_t record = 0;
  uint64_t chunk = 0;  // 0 also: all of a small one
  auto operator<=>(const BlockKey&) const = default;
};

enum class Check { kNothing, kRecord, kChunk };

// What is to be read, and what it must hash to.
struct BlockPlan {
  Extent extent;        // the whole record
  uint64_t chunk = 0;
  uint64_t begin = 0;   // in the record
  size_t size = 0;
  Check check = Check::kRecord;
  uint32_t crc32c = 0;  // of the chunk, where that is what is checked

  [[nodiscard]] BlockKey key() const { return {extent.shard, extent.record, chunk}; }
  [[nodiscard]] uint64_t file_offset() const { return extent.offset + begin; }
  // What has to be read with the block to verify it.
  [[nodiscard]] size_t trailer_size() const {
    return check == Check::kRecord ? extent.trailer_size() : 0;
  }
};

// Of all bytes of a record; of one that is larger than kWholeRecordSize too.
[[nodiscard]] inline BlockPlan whole_plan(const Extent& extent, bool check_data) {
  return {.extent = extent,
          .chunk = extent.size > kWholeRecordSize ? kWholeChunk : 0,
          .size = static_cast<size_t>(extent.size),
          .check = check_data ? Check::kRecord : Check::kNothing};
}

// How a block was found.
enum class Found {
  kKept,        // a part of it was read before
  kPrefetched,  // it was read ahead
  kPageCache,
  kMissing,     // it takes storage
};

// Bytes that have passed their check. Immutable and shared, but for the count of
// what has been handed out, after which nobody needs to hold the block.
struct Block {
  Buffer buffer;
  std::span<const std::byte> bytes;
  bool is_from_storage = false;  // to have it again means to wait again
  std::atomic<size_t> served_bytes{0};
};
using BlockPtr = std::shared_ptr<Block>;

// Some bytes of a block, which they keep alive.
struct Slice {
  BlockPtr owner;
  std::span<const std::byte> bytes;
};

}  // namespace ffrfs
