// A range of a file whose bytes are verified before they are returned, in blocks of 64 KiB, when
// they are first read.
//
//   file ──pread──► block of 64 KiB ── its checksum matches ──► a fingerprint of each 4 KiB
//   file ──pread──► page of 4 KiB ── its fingerprint matches ──► KeptPages ──► the caller's copy
//
// Nothing is mapped: a page that cannot be read (the file was truncated, the disk has failed) is an
// error, and not a signal. Verified bytes are private copies, so a file that is overwritten gives
// errors for the parts that are read later, and never a wrong byte.
//
// Thread-safe. Takes 12 bytes of memory a block, 64 more once it was verified; and KeptPages.
// Not here: where the checksums come from (record/).

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "io/kept_pages.h"
#include "io/little_endian.h"
#include "io/source.h"

namespace ffrfs {

class CheckedRange {
 public:
  static constexpr uint64_t kBlockSize = 65536;

  // Bytes of the range that the checksums treat as zeros.
  struct Blank {
    uint64_t offset = 0;
    uint64_t size = 0;
  };

  // The range [offset, offset + size) of `file`, which must outlive this object. `checksums`: the
  // CRC-32C of each block. For messages: `name` names the range, `advice` says how to repair
  // damage.
  CheckedRange(const Source& file, uint64_t offset, uint64_t size, std::vector<uint32_t> checksums,
               std::string name, std::string advice, std::vector<Blank> blanks = {});
  CheckedRange(const CheckedRange&) = delete;
  CheckedRange& operator=(const CheckedRange&) = delete;
  ~CheckedRange();

  [[nodiscard]] uint64_t size() const { return size_; }

  // Fills `target` from `offset`; all of it must be inside the range. `part` names the part of the
  // range in messages. Throws ChecksumError, StorageError.
  void copy(uint64_t offset, std::span<std::byte> target, const char* part) const {
    while (!target.empty()) {
      const uint64_t page = offset / kPageSize;
      const auto within = static_cast<size_t>(offset % kPageSize);
      const auto piece = target.first(std::min(target.size(), kPageSize - within));
      if (!kept_.copy({number_, page}, within, piece)) read(page, within, piece, part);
      offset += piece.size();
      target = target.subspan(piece.size());
    }
  }

  // Returns a number or struct in the file's byte order. Throws as copy() does.
  template <typename T> [[nodiscard]] T load(uint64_t offset, const char* part) const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::array<std::byte, sizeof(T)> bytes;
    copy(offset, bytes, part);
    return load_le<T>(bytes);
  }

  // Reads and verifies the blocks that overlap [offset, offset + size), even if pages of them are
  // kept. Throws as copy() does.
  void verify(uint64_t offset, uint64_t size, const char* part) const;

 private:
  static constexpr size_t kPageSize = KeptPages::kPageSize;
  static constexpr uint64_t kPageCount = kBlockSize / kPageSize;  // in a block
  static constexpr int kTryCount = 4;
  // How many blocks are read ahead at once when blocks are verified in sequence.
  static constexpr uint64_t kAheadCount = 16;

  using Fingerprints = std::array<std::atomic<uint32_t>, kPageCount>;  // CRC-32C

  void read(uint64_t page, size_t offset, std::span<std::byte> target, const char* part) const;
  void read_checked(uint64_t page, size_t offset, std::span<std::byte> target,
                    const char* part) const;
  [[nodiscard]] uint32_t fingerprint(uint64_t page, const char* part) const;
  // Reads the block and sets the fingerprints of its pages, or throws ChecksumError.
  void check(uint64_t block, const char* part) const;
  void check_once(uint64_t block, const char* part) const;
  void set_fingerprints(uint64_t block, const std::array<uint32_t, kPageCount>& values) const;
  void read_ahead(uint64_t block) const;
  void read_file(uint64_t offset, std::span<std::byte> target, const char* part) const;
  [[nodiscard]] bool is_checked(uint64_t block) const { return fingerprints_[block] != nullptr; }

  const Source& file_;
  const uint64_t file_offset_;
  const uint64_t size_;
  const std::vector<uint32_t> checksums_;
  const std::string name_;
  const std::string advice_;
  const std::vector<Blank> blanks_;
  const uint64_t number_;  // the range's key in kept_
  KeptPages& kept_;

  // The fingerprints of each block; nullptr until the block was verified.
  const std::unique_ptr<std::atomic<Fingerprints*>[]> fingerprints_;
};

}  // namespace ffrfs
