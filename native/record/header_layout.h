// How large an FFRecord header is: what docs/format.md says of it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "io/checked.h"
#include "io/little_endian.h"

namespace ffrfs {

inline constexpr uint64_t kHeaderFixedSize = 12;  // u32 checksum and i64 n
inline constexpr uint64_t kHeaderEntrySize = 12;  // of a record: u32 checksum and i64 offset

// Of a file that is known to have so many records.
[[nodiscard]] constexpr uint64_t ffrecord_header_size(uint64_t record_count) {
  return kHeaderFixedSize + kHeaderEntrySize * record_count;
}

// Of one with so many; none if no file can have them.
[[nodiscard]] inline std::optional<uint64_t> checked_header_size(uint64_t record_count) {
  const auto entries_size = checked_mul(record_count, kHeaderEntrySize);
  return entries_size ? checked_add(*entries_size, kHeaderFixedSize) : std::nullopt;
}

// What a header says that it must hash to, and with it all its records; 0: nothing. `header`: its
// first bytes; of too few 0.
[[nodiscard]] inline uint32_t stored_header_checksum(std::span<const std::byte> header) {
  return header.size() < sizeof(uint32_t) ? 0 : load_le<uint32_t>(header, 0);
}

}  // namespace ffrfs
