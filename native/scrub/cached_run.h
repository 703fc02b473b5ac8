// Records that lie side by side in one file, checked by one thread, as far as the page
// cache holds them.
//
// Their bytes pass through a window that is small enough for the core's own cache: nothing
// is written to memory and read from there again, and many small records cost one read.

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

  // What is read ahead of a record ends at `end`, an offset in the file of the next ones.
  void begin(uint64_t end);
  // After the last of them.
  void finish();

  // False: the page cache does not hold all of the record. Throws ChecksumError.
  [[nodiscard]] bool check(const Extent& extent, ChunkCheck chunks);

 private:
  // Bytes from `offset` on: at least one of `size`; none: the page cache does not hold them.
  [[nodiscard]] std::span<const std::byte> at(const Extent& extent, uint64_t offset, uint64_t size);

  Fetcher& fetcher_;
  Buffer memory_;
  uint64_t end_ = 0;
  uint64_t sound_count_ = 0;  // told by finish(): the threads would contend for each
  uint64_t window_offset_ = 0;
  std::span<const std::byte> window_;
};

}  // namespace ffrfs
