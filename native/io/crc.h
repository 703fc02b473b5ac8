// The two checksums of ffrfs, both computed by ISA-L: CRC-32 (zlib's polynomial; FFRecord) and
// CRC-32C (Castagnoli; TFRecord and the fingerprints of large records).

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

namespace ffrfs {

// Returns the same as zlib.crc32(bytes, seed): `seed` is the checksum of the bytes before.
[[nodiscard]] uint32_t crc32(std::span<const std::byte> bytes, uint32_t seed = 0);

// Returns the same as crc32c.crc32c(bytes, seed).
[[nodiscard]] uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed = 0);

// Returns a CRC-32C in the form that TFRecord stores, so that a CRC over data that contains CRCs is
// still a good check (tensorflow/core/lib/hash/crc32c.h).
[[nodiscard]] constexpr uint32_t mask_crc32c(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

// Returns a checksum as messages show it.
[[nodiscard]] inline std::string hex(uint32_t crc) {
  char text[11];
  std::snprintf(text, sizeof text, "0x%08x", crc);
  return text;
}

}  // namespace ffrfs
