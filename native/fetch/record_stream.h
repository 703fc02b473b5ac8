// A whole record from front to end, in bounded memory, verified when the end is
// reached: for the index, for verification, for records too large to hold.
//
// Blocks. One thread at a time. Its pieces are in flight in the budget.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "fetch/budget.h"
#include "fetch/fetcher.h"
#include "io/read_queue.h"
#include "shard/extent.h"
#include "tree/byte_source.h"

namespace ffrfs {

class RecordStream : public ByteSource {
 public:
  // Pieces are this long, but for the last.
  static constexpr size_t kPieceSize = size_t{1} << 20;

  // Pieces under way at a time, where they have to be waited for; fewer where --cache-mb is
  // small.
  static constexpr size_t kDepthMax = 4;
  [[nodiscard]] static size_t memory_for(Fetcher& fetcher);

  // `memory`: what memory_for() says, if that is reserved already.
  RecordStream(Fetcher& fetcher, const Extent& extent, Reservation memory = {});

  // The bytes have NOT been verified until next() has returned empty, once, without
  // throwing ChecksumError. Throws StorageError.
  [[nodiscard]] std::span<const std::byte> next() override;

 private:
  struct Ahead {
    RawBytes raw;
    bool arrived = false;
  };

  [[nodiscard]] size_t piece_size(uint64_t position) const;
  [[nodiscard]] bool read_cached(size_t size);
  void submit(uint64_t position);
  void wait_for_piece();

  Fetcher& fetcher_;
  const Extent extent_;
  const Reservation memory_;
  const size_t depth_;
  RawBytes piece_;  // the last that was handed out
  std::deque<std::shared_ptr<Ahead>> ahead_;  // those that follow it, without a gap
  uint64_t position_ = 0;
  uint32_t crc_ = 0;
  ReadPort port_;  // last: what it reads goes into what is above
};

}  // namespace ffrfs
