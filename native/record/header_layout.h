// The size of an FFRecord header, as in docs/format.md.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "io/checked.h"
#include "io/little_endian.h"

namespace ffrfs {

inline constexpr uint64_t kHeaderFixedSize = 12;  // u32 checksum and i64 n
inline constexpr uint64_t kHeaderEntrySize = 12;  // per record: u32 checksum and i64 offset

// Returns the size of the header of a file that is known to have that many records.
[[nodiscard]] constexpr uint64_t ffrecord_header_size(uint64_t record_count) {
  return kHeaderFixedSize + kHeaderEntrySize * record_count;
}

// The same for an untrusted count; nullopt if no file can have that many records.
[[nodiscard]] inline std::optional<uint64_t> checked_header_size(uint64_t record_count) {
  const auto entries_size = checked_mul(record_count, kHeaderEntrySize);
  return entries_size ? checked_add(*entries_size, kHeaderFixedSize) : std::nullopt;
}

// Returns the header's stored checksum, which covers the checksums of all records; 0 if it has
// none. `header`: the file's first bytes; returns 0 if there are too few.
[[nodiscard]] inline uint32_t stored_header_checksum(std::span<const std::byte> header) {
  return header.size() < sizeof(uint32_t) ? 0 : load_le<uint32_t>(header, 0);
}

}  // namespace ffrfs
