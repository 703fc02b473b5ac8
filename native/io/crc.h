// The two checksums of this house, both at the speed of ISA-L:
// CRC-32 (zlib's polynomial, FFRecord) and CRC-32C (Castagnoli, TFRecord and the
// fingerprints of large records).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ffrfs {

// As zlib.crc32(bytes, seed): pass the previous result to go on. Empty: `seed`.
[[nodiscard]] uint32_t crc32(std::span<const std::byte> bytes, uint32_t seed = 0);

// As crc32c.crc32c(bytes, seed).
[[nodiscard]] uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed = 0);

}  // namespace ffrfs
