#include "io/checked_range.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "io/crc.h"
#include "io/error.h"

namespace ffrfs {
namespace {

std::atomic<uint64_t> range_count{0};

}  // namespace

CheckedRange::CheckedRange(const Source& file, uint64_t offset, uint64_t size,
                           std::vector<uint32_t> checksums, std::string name, std::string advice,
                           std::vector<Blank> blanks)
    : file_(file),
      file_offset_(offset),
      size_(size),
      checksums_(std::move(checksums)),
      name_(std::move(name)),
      advice_(std::move(advice)),
      blanks_(std::move(blanks)),
      number_(++range_count),
      kept_(KeptPages::of_process()),
      fingerprints_(std::make_unique<std::atomic<Fingerprints*>[]>(checksums_.size())) {}

CheckedRange::~CheckedRange() {
  for (size_t block = 0; block < checksums_.size(); ++block) delete fingerprints_[block].load();
}

void CheckedRange::verify(uint64_t offset, uint64_t size, const char* part) const {
  if (size == 0) return;
  const uint64_t last = (offset + size - 1) / kBlockSize;
  for (uint64_t block = offset / kBlockSize; block <= last; ++block) check(block, part);
}

void CheckedRange::read(uint64_t page, size_t offset, std::span<std::byte> target,
                        const char* part) const {
  try {
    read_checked(page, offset, target, part);
  } catch (const Error&) {
    // The page may be kept: copy() misses it while another thread uses its set.
    if (!kept_.copy_in_turn({number_, page}, offset, target)) throw;
  }
}

void CheckedRange::read_checked(uint64_t page, size_t offset, std::span<std::byte> target,
                                const char* part) const {
  std::array<std::byte, kPageSize> buffer;
  const uint64_t begin = page * kPageSize;
  const auto bytes = std::span(buffer).first(std::min<uint64_t>(kPageSize, size_ - begin));
  for (int tries_left = kTryCount; tries_left > 0; --tries_left) {
    const uint32_t expected = fingerprint(page, part);
    read_file(begin, bytes, part);
    if (crc32c(bytes) == expected) {
      kept_.keep({number_, page}, bytes);
      std::memcpy(target.data(), bytes.data() + offset, target.size());
      return;
    }
    // Throws if the block is damaged; else the file was being written to, and the read is retried.
    check(page / kPageCount, part);
  }
  throw StorageError(EIO, file_.path(), "changes while it is read");
}

uint32_t CheckedRange::fingerprint(uint64_t page, const char* part) const {
  const uint64_t block = page / kPageCount;
  if (!is_checked(block)) {
    read_ahead(block);
    check(block, part);
  }
  return (*fingerprints_[block].load())[page % kPageCount];
}

void CheckedRange::check(uint64_t block, const char* part) const {
  with_second_try(file_, file_offset_ + block * kBlockSize, kBlockSize,
                  [&] { check_once(block, part); });
}

void CheckedRange::check_once(uint64_t block, const char* part) const {
  const uint64_t begin = block * kBlockSize;
  const auto size = static_cast<size_t>(std::min(kBlockSize, size_ - begin));
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(size);
  const std::span bytes(buffer.get(), size);
  read_file(begin, bytes, part);
  std::array<uint32_t, kPageCount> fingerprints{};
  for (size_t page = 0; page * kPageSize < size; ++page) {
    const size_t at = page * kPageSize;
    fingerprints[page] = crc32c(bytes.subspan(at, std::min(kPageSize, size - at)));
  }
  for (const Blank& blank : blanks_) {
    const uint64_t blank_begin = std::max(begin, blank.offset);
    const uint64_t blank_end = std::min(begin + size, blank.offset + blank.size);
    if (blank_begin >= blank_end) continue;
    std::ranges::fill(bytes.subspan(blank_begin - begin, blank_end - blank_begin), std::byte{0});
  }
  if (const uint32_t crc = crc32c(bytes); crc != checksums_[block]) {
    throw ChecksumError(file_.path(), "damaged " + name_ + " (" + part + "): the checksum of " +
                                          std::to_string(size) + " bytes at offset " +
                                          std::to_string(file_offset_ + begin) + " is " +
                                          hex(checksums_[block]) + ", they give " + hex(crc) +
                                          "; " + advice_);
  }
  set_fingerprints(block, fingerprints);
}

// Overwrites fingerprints that were set before: bytes that count as zeros may have changed.
void CheckedRange::set_fingerprints(uint64_t block,
                                    const std::array<uint32_t, kPageCount>& values) const {
  auto fresh = std::make_unique<Fingerprints>();
  std::ranges::copy(values, fresh->begin());
  Fingerprints* present = nullptr;
  if (fingerprints_[block].compare_exchange_strong(present, fresh.get())) {
    (void)fresh.release();
  } else {
    std::ranges::copy(values, present->begin());
  }
}

// Asks for exactly the blocks that are needed, because the kernel would guess: with 8 MB of
// readahead it may read all of them for one page.
void CheckedRange::read_ahead(uint64_t block) const {
  const bool is_run = block % kAheadCount == 0 && block > 0 && is_checked(block - 1);
  const uint64_t count = is_run ? 2 * kAheadCount : 1;
  file_.will_need(file_offset_ + block * kBlockSize, count * kBlockSize);
}

void CheckedRange::read_file(uint64_t offset, std::span<std::byte> target, const char* part) const {
  try {
    file_.read_fully(file_offset_ + offset, target);
  } catch (const StorageError& error) {
    if (file_.can_refetch()) throw;  // the server's error names the fault
    throw StorageError(error.code(), file_.path(),
                       "cannot read the " + name_ + " (" + part + ") at offset " +
                           std::to_string(file_offset_ + offset) +
                           ": the disk has failed, or the file was cut off");
  }
}

}  // namespace ffrfs
