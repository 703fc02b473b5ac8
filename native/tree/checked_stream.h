// Writes the checked bytes of an index, and computes the CRC-32C of each 64 KiB of them.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/crc.h"
#include "record/index_layout.h"
#include "tree/byte_sink.h"

namespace ffrfs {

class CheckedStream {
 public:
  explicit CheckedStream(const ByteSink& sink) : sink_(sink) { block_.reserve(kIndexBlockSize); }

  [[nodiscard]] uint64_t size() const { return size_; }

  void write(std::span<const std::byte> bytes) {
    size_ += bytes.size();
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kIndexBlockSize - block_.size()));
      block_.insert(block_.end(), piece.begin(), piece.end());
      if (block_.size() == kIndexBlockSize) end_block();
      bytes = bytes.subspan(piece.size());
    }
  }

  // Writes `value` as it is in memory.
  template <typename T> void put(const T& value) { write(std::as_bytes(std::span(&value, 1))); }

  void align_8() {
    constexpr std::array<std::byte, 8> kZeros{};
    write(std::span(kZeros).first(ffrfs::align_8(size_) - size_));
  }

  // Returns the checksums. Must be the last call.
  [[nodiscard]] std::vector<uint32_t> finish() {
    if (!block_.empty()) end_block();
    return std::move(checksums_);
  }

 private:
  void end_block() {
    checksums_.push_back(crc32c(block_));
    sink_(block_);
    block_.clear();
  }

  const ByteSink& sink_;
  std::vector<std::byte> block_;
  uint64_t size_ = 0;
  std::vector<uint32_t> checksums_;
};

}  // namespace ffrfs
