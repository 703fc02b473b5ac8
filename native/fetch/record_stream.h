// A whole record from front to end, in bounded memory, verified when the end is
// reached: for the index, for verification, for records too large to hold.
//
// Blocks. One thread at a time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "io/buffer.h"
#include "io/read_queue.h"
#include "shard/extent.h"
#include "shard/shard_set.h"
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
  // Pieces under way at a time, where they have to be waited for.
  static constexpr size_t kDepth = 4;

  struct Ahead {
    RawBytes raw;
    bool arrived = false;
  };

  [[nodiscard]] size_t piece_size(uint64_t position) const;
  [[nodiscard]] bool read_cached(size_t size);
  void submit(uint64_t position);
  void wait_for_piece();

  const ShardSet& shards_;
  const Extent extent_;
  Counters& counters_;
  BufferPool buffers_;
  RawBytes piece_;  // the last that was handed out
  std::deque<std::shared_ptr<Ahead>> ahead_;  // those that follow it, without a gap
  uint64_t position_ = 0;
  uint32_t crc_ = 0;
  ReadQueue queue_;  // last: its threads fill what is above
};

}  // namespace ffrfs
