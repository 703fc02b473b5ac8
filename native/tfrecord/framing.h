// TFRecord's framing: a file is frames, one after the other, and nothing else.
//
//   0x00      u64   n, the length of the data
//   0x08      u32   masked CRC-32C of those eight bytes (io/crc.h)
//   0x0c      n     the data
//   0x0c + n  u32   masked CRC-32C of the data
//
// (tensorflow/core/lib/io/record_writer.h; all little-endian.) Functions without state;
// thread-safe.
// Not here: the check of a record with an extent (shard/record_checksum.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/source.h"

namespace ffrfs {

inline constexpr size_t kFrameHeaderSize = 12;
inline constexpr size_t kFrameTrailerSize = 4;
inline constexpr size_t kFramingSize = kFrameHeaderSize + kFrameTrailerSize;

// A frame's record number, and its offset in the file.
struct FramePlace {
  uint64_t record = 0;
  uint64_t offset = 0;
};

// Fills `frame`, which is kFramingSize larger than `data`.
void write_frame(std::span<const std::byte> data, std::span<std::byte> frame);

// Returns whether `begin` begins with a length and the checksum of that length.
[[nodiscard]] bool is_frame_header(std::span<const std::byte> begin);

// Returns the size of the frame at `place`, which is in the file: data and kFramingSize. `header`:
// its first kFrameHeaderSize bytes, or fewer at the end of the file. Throws TruncatedError if the
// file ends inside the frame, FormatError if the length does not match its checksum (unless `check`
// is false) or is impossible.
[[nodiscard]] uint64_t frame_size(const Source& file, FramePlace place,
                                  std::span<const std::byte> header, bool check = true);

// The same, but reads the header, and fetches it again if it is wrong and that is possible. Throws
// StorageError, too.
[[nodiscard]] uint64_t read_frame_size(const Source& file, FramePlace place, bool check = true);

// The same as frame_size(), but goes on with read_frame_size() if `header` is wrong here.
[[nodiscard]] uint64_t sound_frame_size(const Source& file, FramePlace place,
                                        std::span<const std::byte> header, bool check = true);

// Throws ChecksumError unless the trailer of the frame at `place` matches its data.
void check_frame(const Source& file, FramePlace place, std::span<const std::byte> data,
                 std::span<const std::byte> trailer);

// Returns where each frame begins, and the end of the file. Hops from header to header and reads no
// data. Returns at most one number per kFramingSize bytes of the file, whatever its content. Throws
// what read_frame_size() throws.
[[nodiscard]] std::vector<uint64_t> frame_offsets(const Source& file);

}  // namespace ffrfs
