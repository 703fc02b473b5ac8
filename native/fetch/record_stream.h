// Reads a whole record from front to end, in bounded memory, and verifies it at the end: for the
// index, for verification, and for records too large to hold.
//
// Blocks. One thread at a time. The memory of its pieces is reserved as in flight.

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
  // The size of every piece but the last.
  static constexpr size_t kPieceSize = size_t{1} << 20;

  // The most pieces that are read ahead from storage; fewer if --cache-mb is small.
  static constexpr size_t kDepthMax = 4;
  [[nodiscard]] static size_t memory_for(Fetcher& fetcher);

  // `memory`: memory_for() bytes, if the caller has reserved them already.
  RecordStream(Fetcher& fetcher, const Extent& extent, Reservation memory = {});

  // Returns the next piece; empty at the end of the record. The bytes have NOT been verified until
  // next() has returned empty once without throwing ChecksumError. Throws StorageError.
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
  RawBytes piece_;  // the last piece that was handed out
  std::deque<std::shared_ptr<Ahead>> ahead_;  // the pieces that follow it, without a gap
  uint64_t position_ = 0;
  uint32_t crc_ = 0;
  ReadPort port_;  // last, because its callbacks use the members above
};

}  // namespace ffrfs
