// The unit of fetching and verifying: a whole record, or a chunk of a large one.
//
//   record <= kWholeRecordSize      [ the record, checked by its own checksum ]
//   larger                          [ chunk 0 ][ chunk 1 ][ ... ]  kChunkSize each,
//                                   checked by fingerprints (chunk_fingerprints.h); or whole,
//                                   if it was read ahead
//
// Not here: where units are kept (unit_table.h), how they are read (fetcher.h).

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fetch/budget.h"
#include "io/buffer.h"
#include "shard/extent.h"

namespace ffrfs {

// Up to here a record is held whole while it is read: most files of a data set take
// one read from storage, and a photograph of some megabytes is not read twice.
inline constexpr uint64_t kWholeRecordSize = uint64_t{4} << 20;
inline constexpr uint64_t kChunkSize = uint64_t{1} << 20;

// What the table of units has, by record: its bytes, and what is made of them.
enum class UnitKind : uint8_t {
  kRecord,        // all bytes of a record, of any size
  kChunk,         // chunk `part` of a large record
  kMadeFile,      // a file that is made of the record; `part` is its inode
  kSubtree,       // the directory that is made of the record
  kFingerprints,  // the checksums of a large record's chunks
};

struct UnitKey {
  uint32_t shard = 0;
  uint64_t record = 0;  // of the shard
  UnitKind kind = UnitKind::kRecord;
  uint64_t part = 0;
  auto operator<=>(const UnitKey&) const = default;
};

enum class Check { kNothing, kRecord, kChunk };

// What is to be read, and what it must hash to.
struct UnitPlan {
  Extent extent;  // the whole record
  UnitKind kind = UnitKind::kRecord;  // or kChunk
  uint64_t chunk = 0;
  uint64_t begin = 0;  // in the record
  size_t size = 0;
  Check check = Check::kRecord;
  uint32_t crc32c = 0;  // of the chunk, where that is what is checked

  [[nodiscard]] UnitKey key() const { return {extent.shard, extent.record, kind, chunk}; }
  [[nodiscard]] uint64_t file_offset() const { return extent.offset + begin; }
  // What has to be read with the unit to verify it.
  [[nodiscard]] size_t trailer_size() const {
    return check == Check::kRecord ? extent.trailer_size() : 0;
  }
};

// Of all bytes of a record; of one that is larger than kWholeRecordSize too.
[[nodiscard]] inline UnitPlan whole_plan(const Extent& extent, bool check_data) {
  return {.extent = extent,
          .size = static_cast<size_t>(extent.size),
          .check = check_data ? Check::kRecord : Check::kNothing};
}

// How a unit was found.
enum class Found {
  kKept,        // a part of it was read before
  kPrefetched,  // it was read ahead
  kPageCache,
  kMissing,     // it takes storage
};

// What the table of units holds. Its memory is in one account of the budget.
struct Held {
  Held() = default;
  explicit Held(Reservation reserved) : memory(std::move(reserved)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  virtual ~Held() = default;

  Reservation memory;
};
using HeldPtr = std::shared_ptr<Held>;

// Bytes that have passed their check. Immutable and shared, but for the count of
// what has been handed out, after which nothing needs to hold the unit.
struct Unit : Held {
  using Held::Held;
  Buffer buffer;
  std::span<const std::byte> bytes;
  bool is_from_storage = false;  // to have it again means to wait again
  std::atomic<size_t> served_bytes{0};
};
using UnitPtr = std::shared_ptr<Unit>;

// Some bytes of a unit, which they keep alive.
struct Slice {
  UnitPtr owner;
  std::span<const std::byte> bytes;
  std::vector<Slice> rest{};  // in other units; empty unless asked for so
};

}  // namespace ffrfs
