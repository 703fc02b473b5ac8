// The bytes of a pickle, one opcode or argument at a time, in whatever pieces the
// source hands them out. Memory: one argument of the size limit.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/little_endian.h"
#include "tree/byte_source.h"
#include "tree/name.h"

namespace ffrfs {

// All throw what the source throws, and PickleFault where the bytes end too early.
class PickleBytes {
 public:
  // No argument that an index needs is longer.
  static constexpr size_t kArgumentLimit = NameDecoder::kPickledSizeLimit;

  explicit PickleBytes(ByteSource& source) : source_(source) {}

  // Of the next byte, from the front of the pickle.
  [[nodiscard]] uint64_t offset() const { return piece_offset_ + position_; }

  [[nodiscard]] uint8_t byte() {
    if (position_ == piece_.size()) next_piece();
    return static_cast<uint8_t>(piece_[position_++]);
  }

  // Little-endian.
  template <typename T>
  [[nodiscard]] T integer() {
    return load_le<T>(std::as_bytes(std::span(take(sizeof(T)))));
  }

  // Valid until the next call. Throws PickleFault above the limit.
  [[nodiscard]] std::string_view take(uint64_t size);

  // Up to the next newline, which is taken too. Otherwise as take().
  [[nodiscard]] std::string_view line();

  // Reads and forgets all that is left, so that the source checks the whole.
  void drain();

 private:
  void next_piece();

  ByteSource& source_;
  std::span<const std::byte> piece_;
  size_t position_ = 0;                        // in piece_
  uint64_t piece_offset_ = 0;                  // of piece_
  std::array<char, kArgumentLimit> argument_;  // one that lies in two pieces
};

}  // namespace ffrfs
