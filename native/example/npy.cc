#include "example/npy.h"

#include <algorithm>
#include <string>

#include "io/little_endian.h"

namespace ffrfs {

void write_npy_header(std::span<std::byte, kNpyHeaderSize> header, std::string_view dtype,
                      uint64_t count) {
  using namespace std::string_literals;
  // Padded with spaces, so that the values begin at a multiple of 64; at most 90 of 128 bytes.
  std::string text = "\x93NUMPY\x01\x00\x00\x00{'descr': '"s;
  text += dtype;
  text += "', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }";
  text.resize(kNpyHeaderSize - 1, ' ');
  text += '\n';
  std::ranges::copy(std::as_bytes(std::span(text)), header.begin());
  store_le(std::span<std::byte>(header), 8, static_cast<uint16_t>(kNpyHeaderSize - 10));
}

}  // namespace ffrfs
