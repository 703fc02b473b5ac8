// One-dimensional arrays as NumPy's .npy files, version 1.0: a header of 128 bytes, then the
// values, little-endian. The format:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ffrfs {

inline constexpr size_t kNpyHeaderSize = 128;

// `dtype` is NumPy's name, "<i8" or "<f4"; `count` is the number of values.
void write_npy_header(std::span<std::byte, kNpyHeaderSize> header, std::string_view dtype,
                      uint64_t count);

}  // namespace ffrfs
