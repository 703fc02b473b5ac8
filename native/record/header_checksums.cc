#include "record/header_checksums.h"

#include <array>
#include <cstddef>

#include "io/block_checksums.h"
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
  BlockChecksums blocks(kIndexBlockSize);
  for (const auto part : parts) blocks.add(part);
  return blocks.values();
}

}  // namespace ffrfs
