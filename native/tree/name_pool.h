// Stores byte strings of at most 4095 bytes in pieces of 1 MiB: no string is ever moved, and
// growing allocates only one piece.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace ffrfs {

class NamePool {
 public:
  // Returns the position, below 2^44 for any pool that fits in memory. Views of it stay valid.
  uint64_t add(std::string_view bytes) {
    if (pieces_.empty() || bytes.size() > kPieceSize - used_) {
      pieces_.push_back(std::make_unique_for_overwrite<char[]>(kPieceSize));
      used_ = 0;
    }
    const uint64_t place = (pieces_.size() - 1) * kPieceSize + used_;
    std::memcpy(pieces_.back().get() + used_, bytes.data(), bytes.size());
    used_ += bytes.size();
    return place;
  }

  [[nodiscard]] std::string_view view(uint64_t place, size_t size) const {
    if (size == 0) return {};  // the root has no name, and there may be no piece
    return {pieces_[place / kPieceSize].get() + place % kPieceSize, size};
  }

 private:
  static constexpr size_t kPieceSize = size_t{1} << 20;

  std::vector<std::unique_ptr<char[]>> pieces_;
  size_t used_ = 0;  // in the last piece
};

}  // namespace ffrfs
