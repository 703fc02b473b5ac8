// The CRC-32C of each 64 KiB of an FFRecord header, as an index holds them: so a header can
// be mapped, and checked where it is touched.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ffrfs {

// Of a file of `offsets.size()` records, at least one; `checksums` are those of all but the
// last. The last one's, and the header's own, are taken for zero: they cover the index.
[[nodiscard]] std::vector<uint32_t> header_checksums(std::span<const uint32_t> checksums,
                                                     std::span<const uint64_t> offsets);

}  // namespace ffrfs
