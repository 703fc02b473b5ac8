// Computes the CRC-32C of each block of a stream of bytes, which come in pieces of any size.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/crc.h"

namespace ffrfs {

class BlockChecksums {
 public:
  explicit BlockChecksums(size_t block_size) : block_size_(block_size) {}

  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (left_ == 0) {
        checksums_.push_back(0);
        left_ = block_size_;
      }
      const auto piece = bytes.first(std::min(bytes.size(), left_));
      checksums_.back() = crc32c(piece, checksums_.back());
      left_ -= piece.size();
      bytes = bytes.subspan(piece.size());
    }
  }

  // Returns the checksums of all bytes so far. The last block may be shorter than the others.
  [[nodiscard]] const std::vector<uint32_t>& values() const { return checksums_; }

 private:
  const size_t block_size_;
  size_t left_ = 0;  // to the end of the last block
  std::vector<uint32_t> checksums_;
};

}  // namespace ffrfs
