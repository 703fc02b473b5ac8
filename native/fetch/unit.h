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

// Records up to this size are read and held whole: most files of a data set take one read from
// storage, and a photograph of some megabytes is not read twice.
inline constexpr uint64_t kWholeRecordSize = uint64_t{4} << 20;
inline constexpr uint64_t kChunkSize = uint64_t{1} << 20;

// The kinds of entries in the table of units: bytes of a record, and objects made from them.
enum class UnitKind : uint8_t {
  kRecord,        // all bytes of a record, of any size
  kChunk,         // chunk `part` of a large record
  kMadeFile,      // a file that is made from the record; `part` is its inode
  kSubtree,       // the directory that is made from the record
  kFingerprints,  // the checksums of a large record's chunks
};

struct UnitKey {
  uint32_t shard = 0;
  uint64_t record = 0;  // in the shard
  UnitKind kind = UnitKind::kRecord;
  uint64_t part = 0;
  auto operator<=>(const UnitKey&) const = default;
};

enum class Check { kNothing, kRecord, kChunk };

// The range of a record that is to be read, and how it is verified.
struct UnitPlan {
  Extent extent;  // the whole record
  UnitKind kind = UnitKind::kRecord;  // or kChunk
  uint64_t chunk = 0;
  uint64_t begin = 0;  // in the record
  size_t size = 0;
  Check check = Check::kRecord;
  uint32_t crc32c = 0;  // of the chunk, if check is kChunk

  [[nodiscard]] UnitKey key() const { return {extent.shard, extent.record, kind, chunk}; }
  [[nodiscard]] uint64_t file_offset() const { return extent.offset + begin; }
  // Returns how many bytes behind the unit are needed to verify it.
  [[nodiscard]] size_t trailer_size() const {
    return check == Check::kRecord ? extent.trailer_size() : 0;
  }
};

// Returns the plan for a whole record, even if it is larger than kWholeRecordSize.
[[nodiscard]] inline UnitPlan whole_plan(const Extent& extent, bool check_data) {
  return {.extent = extent,
          .size = static_cast<size_t>(extent.size),
          .check = check_data ? Check::kRecord : Check::kNothing};
}

// How a unit was found.
enum class Found {
  kKept,        // a reader took a part of it before
  kPrefetched,  // it was read ahead
  kPageCache,
  kMissing,     // it needs storage
};

// An entry that the table of units holds. Its memory is in one account of the budget.
struct Held {
  Held() = default;
  explicit Held(Reservation reserved) : memory(std::move(reserved)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  virtual ~Held() = default;

  Reservation memory;
};
using HeldPtr = std::shared_ptr<Held>;

// Bytes that have passed their check. Immutable and shared, except for the count of bytes handed
// out: once all were, the unit need not be held.
struct Unit : Held {
  using Held::Held;
  Buffer buffer;
  std::span<const std::byte> bytes;
  bool is_from_storage = false;  // reading it again would wait for storage again
  std::atomic<size_t> served_bytes{0};
};
using UnitPtr = std::shared_ptr<Unit>;

// A range of a unit's bytes; keeps the unit alive.
struct Slice {
  UnitPtr owner;
  std::span<const std::byte> bytes;
  std::vector<Slice> rest{};  // of other units; empty unless the caller asked for several
};

}  // namespace ffrfs
