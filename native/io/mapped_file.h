// A range of a file, mapped read-only.
//
// A page that cannot be read (the file was cut off, the disk has failed) is a SIGBUS to who
// touches it. A handler puts zeros in its place and marks the mapping, so the process goes
// on: who reads asks is_damaged() afterwards. Other SIGBUSes go to the handler before ours.
//
// Any thread; a thread that reads must not block SIGBUS (io/thread_pool.cc).
// Not here: whether the bytes are right (verified_map.h).

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "io/source_file.h"

namespace ffrfs {

class MappedFile {
 public:
  // [offset, offset + size) of `file`, which outlives this; at least one byte. Throws
  // StorageError, also where that reaches beyond the end of the file.
  MappedFile(const SourceFile& file, uint64_t offset, size_t size);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

  // Whether zeros stand in the place of bytes, or may have. Told of bytes that this thread
  // has read before.
  [[nodiscard]] bool is_damaged() const {
#ifndef __SANITIZE_THREAD__  // which knows no fences
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
    return range_->is_damaged.load(std::memory_order_acquire);
  }

  // Has [offset, offset + size) read into memory, in one piece and nothing around it (the
  // kernel's own readahead for mappings may take 8 MB for a page). False: it cannot be read.
  // (True says little on kernels before 5.14: pages are read when they are touched.)
  [[nodiscard]] bool populate(size_t offset, size_t size) const;

  // Has as much of it as is there read, without waiting.
  void read_ahead(size_t offset, size_t size) const;

  // Maps the file in the place of the zeros again, and takes the mark away. What others read
  // meanwhile may be zeros still, so they must have been told. One thread at a time.
  // Throws StorageError; then the mark stays.
  void restore();

  // What the handler looks in. Never freed, but used again: it may be looking.
  struct Range {
    std::atomic<uintptr_t> begin{0};
    std::atomic<uintptr_t> end{0};  // 0: of no mapping
    std::atomic<bool> is_damaged{false};
    std::atomic<uint32_t> handler_count{0};  // that are at work in it
    std::atomic<bool> is_taken{true};
    Range* next = nullptr;
  };

 private:
  // Advice to the kernel on the pages of a range; an errno, or 0.
  int advise(size_t offset, size_t size, int advice) const;

  const SourceFile& file_;
  const uint64_t file_offset_;  // of the first page
  std::byte* pages_ = nullptr;
  size_t pages_size_ = 0;
  std::span<const std::byte> bytes_;
  Range* range_ = nullptr;
};

}  // namespace ffrfs
