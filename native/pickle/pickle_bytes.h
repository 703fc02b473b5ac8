// Reads a pickle, one opcode or argument at a time, across the pieces of the source. Takes the
// memory of one argument of the size limit.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/little_endian.h"
#include "tree/byte_source.h"
#include "tree/name.h"

namespace ffrfs {

// All throw the errors of the source, and PickleFault if the bytes end too early.
class PickleBytes {
 public:
  // No valid index has longer arguments.
  static constexpr size_t kArgumentLimit = NameDecoder::kPickledSizeLimit;

  explicit PickleBytes(ByteSource& source) : source_(source) {}

  // Returns the offset of the next byte in the pickle.
  [[nodiscard]] uint64_t offset() const { return piece_offset_ + position_; }

  [[nodiscard]] uint8_t byte() {
    if (position_ == piece_.size()) next_piece();
    return static_cast<uint8_t>(piece_[position_++]);
  }

  // Reads a little-endian number.
  template <typename T> [[nodiscard]] T integer() {
    return load_le<T>(std::as_bytes(std::span(take(sizeof(T)))));
  }

  // The result is valid until the next call. Throws PickleFault above the limit.
  [[nodiscard]] std::string_view take(uint64_t size);

  // Returns the bytes before the next newline, and skips it. Otherwise the same as take().
  [[nodiscard]] std::string_view line();

  // Reads and ignores the rest, so that the source verifies all of it.
  void drain();

 private:
  void next_piece();

  ByteSource& source_;
  std::span<const std::byte> piece_;
  size_t position_ = 0;                        // in piece_
  uint64_t piece_offset_ = 0;                  // of piece_
  std::array<char, kArgumentLimit> argument_;  // for one that spans two pieces
};

}  // namespace ffrfs
