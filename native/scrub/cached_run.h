// Checks records that are adjacent in one file, on one thread, as far as the page cache holds them.
//
// Their bytes pass through a window that fits in the core's own cache: they are not written to
// memory and read again, and many small records cost one read.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fetch/fetcher.h"
#include "io/buffer.h"
#include "record/chunk_check.h"
#include "shard/extent.h"

namespace ffrfs {

class CachedRun {
 public:
  explicit CachedRun(Fetcher& fetcher);

  // Readahead within the window ends at `end`, an offset in the file of the next records.
  void begin(uint64_t end);
  // Must be called after the last of them.
  void finish();

  // Returns false if the page cache does not hold all of the record. Throws ChecksumError.
  [[nodiscard]] bool check(const Extent& extent, ChunkCheck chunks);

 private:
  // Returns 1 to `size` bytes from `offset` on; none if the page cache does not hold them.
  [[nodiscard]] std::span<const std::byte> at(const Extent& extent, uint64_t offset, uint64_t size);

  Fetcher& fetcher_;
  Buffer memory_;
  uint64_t end_ = 0;
  uint64_t sound_count_ = 0;  // added by finish(): threads would contend for the counter
  uint64_t window_offset_ = 0;
  std::span<const std::byte> window_;
};

}  // namespace ffrfs
