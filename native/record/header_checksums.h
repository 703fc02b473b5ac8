// Computes the CRC-32C of each 64 KiB of an FFRecord header, which an index contains, so that a
// header can be mapped, and verified where it is accessed.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ffrfs {

// For a file of `offsets.size()` records, at least one; `checksums` are those of all but the last.
// The last one's, and the header's own, count as zero, because they cover the index.
[[nodiscard]] std::vector<uint32_t> header_checksums(std::span<const uint32_t> checksums,
                                                     std::span<const uint64_t> offsets);

}  // namespace ffrfs
