// Loads and stores integers of the file formats: little-endian, at any alignment.

#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

namespace ffrfs {

static_assert(std::endian::native == std::endian::little,
              "ffrfs copies file integers as they are; a big-endian port swaps them here");

// `bytes` must hold at least offset + sizeof(T) bytes: the caller has to check.
template <typename T> [[nodiscard]] T load_le(std::span<const std::byte> bytes, size_t offset = 0) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <typename T> void store_le(std::span<std::byte> bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

}  // namespace ffrfs
