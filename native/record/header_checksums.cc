#include "record/header_checksums.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "io/crc.h"
#include "io/little_endian.h"
#include "record/index_layout.h"

namespace ffrfs {

std::vector<uint32_t> header_checksums(std::span<const uint32_t> checksums,
                                       std::span<const uint64_t> offsets) {
  std::array<std::byte, 12> fixed{};
  store_le<uint64_t>(fixed, 4, offsets.size());
  const std::array<std::byte, 4> last_checksum{};
  const std::array<std::span<const std::byte>, 4> parts{fixed, std::as_bytes(checksums),
                                                        last_checksum, std::as_bytes(offsets)};
  std::vector<uint32_t> blocks;
  uint32_t crc = 0;
  size_t left = kIndexBlockSize;  // in the block
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      const auto piece = part.first(std::min(part.size(), left));
      crc = crc32c(piece, crc);
      part = part.subspan(piece.size());
      left -= piece.size();
      if (left > 0) continue;
      blocks.push_back(crc);
      crc = 0;
      left = kIndexBlockSize;
    }
  }
  if (left < kIndexBlockSize) blocks.push_back(crc);
  return blocks;
}

}  // namespace ffrfs
