// A whole record from front to end, in bounded memory, verified when the end is
// reached: for the index, for verification, for records too large to hold.
//
// Blocks. One thread at a time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/buffer.h"
#include "record/extent.h"
#include "record/shard_set.h"
#include "tree/byte_source.h"
#include "volume/counters.h"

namespace ffrfs {

class RecordStream : public ByteSource {
 public:
  // Pieces are this long, but for the last.
  static constexpr size_t kPieceSize = size_t{1} << 20;

  RecordStream(const ShardSet& shards, const Extent& extent, Counters& counters);

  // The bytes have NOT been verified until next() has returned empty, once, without
  // throwing ChecksumError. Throws StorageError.
  [[nodiscard]] std::span<const std::byte> next() override;

 private:
  [[nodiscard]] std::span<const std::byte> read_piece(uint64_t offset, size_t size);

  const ShardSet& shards_;
  const Extent extent_;
  Counters& counters_;
  Buffer buffer_;
  uint64_t position_ = 0;
  uint32_t crc_ = 0;
};

}  // namespace ffrfs
