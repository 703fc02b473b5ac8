#include "io/crc.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace ffrfs {

uint32_t crc32(std::span<const std::byte> bytes, uint32_t seed) {
  return crc32_gzip_refl(seed, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed) {
  // ISA-L takes the length as an int here, and leaves both inversions to the caller.
  constexpr size_t kStep = size_t{1} << 30;
  uint32_t state = ~seed;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kStep));
    // The pointer is not const in ISA-L's signature; the bytes are only read.
    state = crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<std::byte*>(part.data())),
                        static_cast<int>(part.size()), state);
    bytes = bytes.subspan(part.size());
  }
  return ~state;
}

}  // namespace ffrfs
