// The two checksums of this house, both at the speed of ISA-L:
// CRC-32 (zlib's polynomial, FFRecord) and CRC-32C (Castagnoli, TFRecord and the
// fingerprints of large records).

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

namespace ffrfs {

// As zlib.crc32(bytes, seed): pass the previous result to go on. Empty: `seed`.
[[nodiscard]] uint32_t crc32(std::span<const std::byte> bytes, uint32_t seed = 0);

// As crc32c.crc32c(bytes, seed).
[[nodiscard]] uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed = 0);

// As TFRecord stores a CRC-32C, so that one of bytes that hold one is still a good check
// (tensorflow/core/lib/hash/crc32c.h).
[[nodiscard]] constexpr uint32_t mask_crc32c(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

// As messages show it.
[[nodiscard]] inline std::string hex(uint32_t crc) {
  char text[11];
  std::snprintf(text, sizeof text, "0x%08x", crc);
  return text;
}

}  // namespace ffrfs
