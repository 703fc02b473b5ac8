// A part of a file that is made from front to end: bytes outside the part are only counted.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ffrfs {

class FilePart {
 public:
  // `to` receives the bytes of the file from `begin` on.
  FilePart(uint64_t begin, std::span<std::byte> to) : begin_(begin), to_(to) {}

  // Returns whether any of the next `size` bytes are in the part.
  [[nodiscard]] bool wants(uint64_t size) const {
    return position_ < begin_ + to_.size() && position_ + size > begin_;
  }
  void put(std::span<const std::byte> bytes) {
    const uint64_t at = position_ - begin_;  // huge before the part
    if (at < to_.size() && bytes.size() <= to_.size() - at) {
      std::ranges::copy(bytes, to_.data() + at);
    } else if (wants(bytes.size())) {
      put_edge(bytes);
    }
    position_ += bytes.size();
  }
  void skip(uint64_t size) { position_ += size; }

  // Returns how many bytes of the file were put or skipped.
  [[nodiscard]] uint64_t position() const { return position_; }

 private:
  void put_edge(std::span<const std::byte> bytes) {
    if (position_ < begin_) bytes = bytes.subspan(static_cast<size_t>(begin_ - position_));
    const auto at = static_cast<size_t>(std::max(position_, begin_) - begin_);
    bytes = bytes.first(std::min(bytes.size(), to_.size() - at));
    std::ranges::copy(bytes, to_.data() + at);
  }

  const uint64_t begin_;
  const std::span<std::byte> to_;
  uint64_t position_ = 0;
};

}  // namespace ffrfs
