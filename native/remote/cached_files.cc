#include "remote/cached_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "io/crc.h"
#include "io/little_endian.h"
#include "remote/remote_error.h"

namespace ffrfs::remote {
namespace {

constexpr size_t kStateHeaderSize = 4096;
constexpr std::string_view kMagic = "ffrfscb1";
constexpr uint32_t kVersion = 1;
constexpr size_t kNumbersAtOnce = 4096;

// Reads as pread() does, and repeats it whenever a signal interrupts it.
ssize_t pread_some(int fd, std::span<std::byte> target, uint64_t offset) {
  ssize_t count = 0;
  do {
    count = pread(fd, target.data(), target.size(), static_cast<off_t>(offset));
  } while (count < 0 && errno == EINTR);
  return count;
}

bool is_absent(std::byte number) { return number == std::byte{0}; }

}  // namespace

// The numbers of a read's blocks, taken before it. Holds enough for a read of usual size; a larger
// read counts as not cached.
class CachedFiles::Numbers {
 public:
  Numbers(const CachedFiles& files, BlockRange range)
      : files_(files), range_(range), is_good_(range.count <= kCountMax) {
    if (!is_good_) return;
    files.read_numbers(range.first, bytes());
    is_good_ = std::ranges::none_of(bytes(), is_absent);
  }
  [[nodiscard]] bool are_there() const { return is_good_; }
  [[nodiscard]] bool are_unchanged() const {
    std::array<std::byte, kCountMax> memory;
    const auto now = std::span(memory).first(range_.count);
    files_.read_numbers(range_.first, now);
    return std::memcmp(now.data(), memory_.data(), now.size()) == 0;
  }

  static constexpr uint64_t kCountMax = 128;

 private:
  [[nodiscard]] std::span<std::byte> bytes() { return std::span(memory_).first(range_.count); }

  const CachedFiles& files_;
  const BlockRange range_;
  bool is_good_;
  std::array<std::byte, kCountMax> memory_;
};

CachedFiles::CachedFiles(FileDescriptor data, FileDescriptor state, const ObjectFacts& facts,
                         const std::string& name)
    : block_size_(facts.block_size),
      data_fd_(data.get()),
      data_(name, std::move(data)),
      // Only files in memory (memfds, tmpfs) answer this; the worker's filter allows the call.
      is_memory_(fcntl(data_fd_, F_GET_SEALS) >= 0),
      state_(std::move(state)) {
  check_state(facts, name);
  if (!is_memory_) data_.open_direct();
  struct stat info{};
  if (fstat(data_fd_, &info) != 0) throw StorageError(errno, name, "cannot stat its cache");
  data_id_ = {.device = info.st_dev, .inode = info.st_ino};
  if (data_.size() != facts.size) {
    throw RemoteError("CacheError", name,
                      "its cache holds " + std::to_string(data_.size()) +
                          " bytes, the object has " + std::to_string(facts.size));
  }
}

void CachedFiles::check_state(const ObjectFacts& facts, const std::string& name) {
  const auto refuse = [&name](const std::string& what) {
    return RemoteError(
        "CacheError", name,
        "the state of its cache is damaged: " + what + "; remove it: ffrfs cache rm");
  };
  if (!std::has_single_bit(block_size_) || block_size_ < kBlockSizeMin ||
      block_size_ > kBlockSizeMax) {
    throw refuse("blocks of " + std::to_string(block_size_) + " bytes");
  }
  struct stat info{};
  if (fstat(state_.get(), &info) != 0) throw StorageError(errno, name, "cannot stat its cache");
  if (!S_ISREG(info.st_mode)) throw refuse("it is not a regular file");
  state_id_ = {.device = info.st_dev, .inode = info.st_ino};
  if (static_cast<uint64_t>(info.st_size) < kStateHeaderSize + facts.block_count()) {
    throw refuse("it has " + std::to_string(info.st_size) + " bytes");
  }
  std::array<std::byte, kStateHeaderSize> header;
  if (pread_some(state_.get(), header, 0) != static_cast<ssize_t>(header.size())) {
    throw refuse("its header cannot be read");
  }
  const auto bytes = std::span<const std::byte>(header);
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0) throw refuse("its magic");
  if (load_le<uint32_t>(bytes, 8) != kVersion) throw refuse("its version");
  if (crc32c(bytes.first(kStateHeaderSize - 4)) != load_le<uint32_t>(bytes, kStateHeaderSize - 4)) {
    throw refuse("its checksum");
  }
  if (load_le<uint32_t>(bytes, 12) != static_cast<uint32_t>(std::countr_zero(block_size_)) ||
      load_le<uint64_t>(bytes, 16) != facts.size ||
      load_le<uint64_t>(bytes, 24) != facts.block_count()) {
    throw refuse("it is of another object");
  }
}

void CachedFiles::read_numbers(uint64_t first, std::span<std::byte> target) const {
  const ssize_t count = pread_some(state_.get(), target, kStateHeaderSize + first);
  std::ranges::fill(target.subspan(static_cast<size_t>(std::max<ssize_t>(count, 0))), std::byte{0});
}

std::optional<BlockRange> CachedFiles::find_missing(BlockRange range) const {
  std::array<std::byte, kNumbersAtOnce> memory;
  uint64_t first = UINT64_MAX;
  uint64_t last = 0;
  for (uint64_t done = 0; done < range.count;) {
    const auto some = std::span(memory).first(
        static_cast<size_t>(std::min<uint64_t>(range.count - done, memory.size())));
    read_numbers(range.first + done, some);
    for (size_t i = 0; i < some.size(); ++i) {
      if (!is_absent(some[i])) continue;
      first = std::min(first, range.first + done + i);
      last = range.first + done + i;
    }
    done += some.size();
  }
  if (first == UINT64_MAX) return std::nullopt;
  return BlockRange{.first = first, .count = last - first + 1};
}

CachedFiles::Numbers CachedFiles::numbers(uint64_t offset, uint64_t size) const {
  const uint64_t first = offset / block_size_;
  return {*this, {.first = first, .count = (offset + size - 1) / block_size_ - first + 1}};
}

bool CachedFiles::read_now(uint64_t offset, size_t size, Source::Parts parts) const {
  const Numbers before = numbers(offset, size);
  if (!before.are_there()) return false;
  if (is_memory_) {  // a memfd supports no RWF_NOWAIT, and never waits
    uint64_t at = offset;
    for (const auto part : parts) {
      if (pread_some(data_fd_, part, at) != static_cast<ssize_t>(part.size())) return false;
      at += part.size();
    }
  } else if (!data_.read_now(offset, parts)) {
    return false;
  }
  return before.are_unchanged();
}

DirectRead CachedFiles::begin_direct(uint64_t offset, size_t size) const {
  const DirectFile* const file = data_.direct();
  if (file == nullptr || file->alignment > kDirectAlignment) return {};
  if (data_.cached_pages(offset, size) != 0U) return {};
  const Numbers before = numbers(offset, size);
  if (!before.are_there()) return {};
  return {.fd = file->fd, .is_good = [before] { return before.are_unchanged(); }};
}

CachedFiles::Found CachedFiles::read(uint64_t offset, std::span<std::byte> target) const {
  if (target.empty()) return Found::kAll;
  const Numbers before = numbers(offset, target.size());
  if (!before.are_there()) return Found::kAbsent;
  while (!target.empty()) {
    const ssize_t count = pread_some(data_fd_, target, offset);
    if (count <= 0) break;
    offset += static_cast<uint64_t>(count);
    target = target.subspan(static_cast<size_t>(count));
  }
  if (!before.are_unchanged()) return Found::kAbsent;
  return target.empty() ? Found::kAll : Found::kLost;
}

}  // namespace ffrfs::remote
