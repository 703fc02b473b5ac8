#include "io/verified_map.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <string>

#include "io/crc.h"
#include "io/error.h"
#include "io/hex.h"

namespace ffrfs {
namespace {

// When the inode, and so its bytes, last changed. What the kernel knows will do: it also
// keeps the pages that we read by that.
int64_t changed_ns(const SourceFile& file) {
  struct statx info {};
  if (statx(file.fd(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_CTIME, &info) != 0) {
    throw StorageError(errno, file.path(), "cannot stat");
  }
  return int64_t{info.stx_ctime.tv_sec} * 1'000'000'000 + info.stx_ctime.tv_nsec;
}

}  // namespace

thread_local VerifiedMap::Watch* VerifiedMap::Watch::innermost = nullptr;

VerifiedMap::Watch::Watch(const VerifiedMap& map) : map_(map), outer_(innermost) {
  innermost = this;
}

VerifiedMap::Watch::~Watch() { innermost = outer_; }

VerifiedMap::Watch* VerifiedMap::Watch::of(const VerifiedMap& map) {
  Watch* watch = innermost;
  while (watch != nullptr && &watch->map_ != &map) watch = watch->outer_;
  return watch;
}

bool VerifiedMap::Watch::has(uint64_t block) const {
  return std::ranges::find(blocks_, block) != blocks_.end();
}

bool VerifiedMap::Watch::has_held() const {
  return std::ranges::all_of(blocks_, [this](uint64_t block) {
    return map_.checksum(block) == map_.checksums_[block];
  });
}

VerifiedMap::VerifiedMap(const SourceFile& file, uint64_t offset, uint64_t size,
                         std::vector<uint32_t> checksums, std::string name,
                         std::string advice, std::vector<Blank> blanks,
                         std::chrono::nanoseconds settling)
    : file_(file),
      file_offset_(offset),
      mapped_(file, offset, static_cast<size_t>(size)),
      bytes_(mapped_.bytes()),
      checksums_(std::move(checksums)),
      name_(std::move(name)),
      advice_(std::move(advice)),
      blanks_(std::move(blanks)),
      verified_in_(std::make_unique<std::atomic<uint32_t>[]>(checksums_.size())),
      changed_ns_(changed_ns(file)),
      settling_(settling) {}

bool VerifiedMap::is_settled() const {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  const int64_t now_ns = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  return now_ns - changed_ns_.load(std::memory_order_acquire) >= settling_.count();
}

uint64_t VerifiedMap::block_end(uint64_t block) const {
  return std::min<uint64_t>((block + 1) * kBlockSize, bytes_.size());
}

std::optional<uint32_t> VerifiedMap::checksum(uint64_t block) const {
  static constexpr std::array<std::byte, 64> kZeros{};
  uint64_t begin = block * kBlockSize;
  const uint64_t end = block_end(block);
  // In one piece, and not page by page.
  if (!mapped_.populate(begin, end - begin)) return std::nullopt;
  uint32_t crc = 0;
  for (const Blank& blank : blanks_) {
    const uint64_t blank_begin = std::max(begin, blank.offset);
    const uint64_t blank_end = std::min(end, blank.offset + blank.size);
    if (blank_begin >= blank_end) continue;
    crc = crc32c(bytes_.subspan(begin, blank_begin - begin), crc);
    crc = crc32c(std::span(kZeros).first(blank_end - blank_begin), crc);
    begin = blank_end;
  }
  crc = crc32c(bytes_.subspan(begin, end - begin), crc);
  if (mapped_.is_damaged()) return std::nullopt;
  return crc;
}

void VerifiedMap::verify(uint64_t block, const char* part) const {
  Watch* const watch = Watch::of(*this);
  if (watch != nullptr && watch->has(block)) return;
  if (block % kAheadCount == 0 && block > 0 && is_verified(block - 1)) {
    mapped_.read_ahead(block * kBlockSize, 2 * kAheadCount * kBlockSize);
  }
  while (true) {
    if (mapped_.is_damaged()) restore();
    const uint32_t generation = present_generation();
    const bool is_final = is_settled();
    const auto crc = checksum(block);
    const uint64_t offset = file_offset_ + block * kBlockSize;
    if (!crc) {
      throw StorageError(EIO, file_.path(),
                         "cannot read the " + name_ + " (" + part + ") at offset " +
                             std::to_string(offset) +
                             ": the disk has failed, or the file was cut off");
    }
    if (*crc == checksums_[block]) {
      if (is_final) verified_in_[block].store(generation, std::memory_order_release);
      if (watch != nullptr) watch->add(block);
      return;
    }
    // Zeros that somebody is replacing just now?
    const std::lock_guard lock(mutex_);
    if (generation_.load() != generation) continue;
    throw ChecksumError(file_.path() + ": damaged " + name_ + " (" + part +
                        "): the checksum of " +
                        std::to_string(block_end(block) - block * kBlockSize) +
                        " bytes at offset " + std::to_string(offset) + " is " +
                        hex(checksums_[block]) + ", they give " + hex(*crc) + "; " + advice_);
  }
}

bool VerifiedMap::has_held_since(uint32_t generation) const {
  // In this order: whoever takes the mark away begins a generation first.
  if (mapped_.is_damaged()) return false;
  const int64_t now_ns = changed_ns(file_);
  if (now_ns != changed_ns_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    if (now_ns == changed_ns_) return false;
    ++generation_;
    changed_ns_ = now_ns;
    ++generation_;
    return false;
  }
  return generation_.load(std::memory_order_acquire) == generation;
}

void VerifiedMap::restore() const {
  const std::lock_guard lock(mutex_);
  if (!mapped_.is_damaged()) return;
  ++generation_;
  try {
    mapped_.restore();
  } catch (...) {
    ++generation_;
    throw;
  }
  ++generation_;
}

uint32_t VerifiedMap::wait_for_generation() const {
  const std::lock_guard lock(mutex_);
  return generation_.load();
}

void VerifiedMap::refuse_unsteady() const {
  throw StorageError(EIO, file_.path(), "changes while it is read");
}

}  // namespace ffrfs
