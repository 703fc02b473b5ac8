#include "tfrecord/framing.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "io/checked.h"
#include "io/crc.h"
#include "io/error.h"
#include "io/little_endian.h"
#include "shard/record_checksum.h"

namespace ffrfs {
namespace {

constexpr size_t kLengthSize = 8;
// For frames up to this size, reading the bytes after them and hopping within those is faster than
// a system call for each header.
constexpr uint64_t kSmallFrameSize = 4 << 10;
constexpr size_t kWindowSize = 64 << 10;
// Protobuf's own limit. A longer length is nonsense, and not the length of a truncated record.
constexpr uint64_t kPlausibleLength = uint64_t{2} << 30;

// Returns an error "train.tfrecord: record 12 (offset 4096): REASON", with its fields.
template <typename Kind>
Kind error_at(const Source& file, FramePlace place, const std::string& reason) {
  return {file.path(),
          "record " + std::to_string(place.record) + " (offset " + std::to_string(place.offset) +
              "): " + reason,
          place.record};
}

TruncatedError cut_off(const Source& file, FramePlace place, const std::string& wanted) {
  return error_at<TruncatedError>(file, place,
                                  "the file ends after " +
                                      std::to_string(file.size() - place.offset) + " of " + wanted +
                                      "; it was cut off or is still being written");
}

uint32_t length_crc(std::span<const std::byte> header) {
  return mask_crc32c(crc32c(header.first(kLengthSize)));
}

// Reads the headers of consecutive frames.
class HeaderReader {
 public:
  explicit HeaderReader(const Source& file) : file_(file) {}

  // Returns the header of the frame at `offset`, which is in the file and not before the last one.
  [[nodiscard]] std::span<const std::byte> read(uint64_t offset) {
    const uint64_t last_size = offset - last_offset_;
    last_offset_ = offset;
    if (offset + kFrameHeaderSize > window_end_) {
      fill(offset, last_size <= kSmallFrameSize ? kWindowSize : kFrameHeaderSize);
    }
    return std::span(bytes_)
        .subspan(static_cast<size_t>(offset - window_begin_))
        .first(static_cast<size_t>(std::min<uint64_t>(window_end_ - offset, kFrameHeaderSize)));
  }

 private:
  void fill(uint64_t offset, size_t size) {
    size = static_cast<size_t>(std::min<uint64_t>(file_.size() - offset, size));
    file_.read_fully(offset, std::span(bytes_).first(size));
    window_begin_ = offset;
    window_end_ = offset + size;
  }

  const Source& file_;
  std::array<std::byte, kWindowSize> bytes_;
  uint64_t window_begin_ = 0;
  uint64_t window_end_ = 0;
  uint64_t last_offset_ = 0;
};

// Returns whether the bytes begin like a sidecar (sidecar.h): "0 ", and more digits. As the length
// of a frame they would be above 10^18.
bool begins_like_index(std::span<const std::byte> begin) {
  constexpr std::string_view kDigits = "0123456789 \n";
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  return text.starts_with("0 ") && text.find_first_not_of(kDigits) == std::string_view::npos;
}

}  // namespace

void write_frame(std::span<const std::byte> data, std::span<std::byte> frame) {
  store_le<uint64_t>(frame, 0, data.size());
  store_le<uint32_t>(frame, kLengthSize, length_crc(frame));
  if (!data.empty()) std::memcpy(frame.data() + kFrameHeaderSize, data.data(), data.size());
  store_le<uint32_t>(frame, kFrameHeaderSize + data.size(), mask_crc32c(crc32c(data)));
}

bool is_frame_header(std::span<const std::byte> begin) {
  return begin.size() >= kFrameHeaderSize &&
         load_le<uint32_t>(begin, kLengthSize) == length_crc(begin);
}

uint64_t frame_size(const Source& file, FramePlace place, std::span<const std::byte> header,
                    bool check) {
  if (place.offset == 0 && begins_like_index(header)) {
    throw FormatError(file.path(),
                      "is the index of a TFRecord file, not a TFRecord file; name that file");
  }
  if (header.size() < kFrameHeaderSize) {
    throw cut_off(file, place, std::to_string(kFrameHeaderSize) + " bytes of its header");
  }
  const auto length = load_le<uint64_t>(header);
  const auto written = load_le<uint32_t>(header, kLengthSize);
  if (check && written != length_crc(header)) {
    throw error_at<FormatError>(file, place,
                                "corrupt length: " + mismatch("file", written, length_crc(header)) +
                                    (place.offset == 0 ? "; is it a TFRecord file?" : ""));
  }
  const auto size = checked_add(length, kFramingSize);
  if (size && *size <= file.size() - place.offset) return *size;
  if (!size || length > kPlausibleLength) {
    throw error_at<FormatError>(file, place,
                                "impossible length: " + std::to_string(length) +
                                    " bytes; the file has " + std::to_string(file.size()));
  }
  throw cut_off(file, place, std::to_string(*size) + " bytes");
}

uint64_t read_frame_size(const Source& file, FramePlace place, bool check) {
  std::array<std::byte, kFrameHeaderSize> memory;
  const auto header = std::span(memory).first(
      static_cast<size_t>(std::min<uint64_t>(file.size() - place.offset, memory.size())));
  return with_second_try<FormatError>(file, place.offset, header.size(), [&] {
    file.read_fully(place.offset, header);
    return frame_size(file, place, header, check);
  });
}

uint64_t sound_frame_size(const Source& file, FramePlace place, std::span<const std::byte> header,
                          bool check) {
  try {
    return frame_size(file, place, header, check);
  } catch (const FormatError&) {
    if (!file.can_refetch()) throw;
  }
  return read_frame_size(file, place, check);
}

std::vector<uint64_t> frame_offsets(const Source& file) {
  HeaderReader headers(file);
  std::vector<uint64_t> offsets{0};
  while (offsets.back() < file.size()) {
    const FramePlace place{offsets.size() - 1, offsets.back()};
    offsets.push_back(place.offset + sound_frame_size(file, place, headers.read(place.offset)));
  }
  offsets.shrink_to_fit();
  return offsets;
}

void check_frame(const Source& file, FramePlace place, std::span<const std::byte> data,
                 std::span<const std::byte> trailer) {
  const auto written = load_le<uint32_t>(trailer);
  const uint32_t found = mask_crc32c(crc32c(data));
  if (found != written) {
    throw error_at<ChecksumError>(file, place, mismatch("file", written, found));
  }
}

}  // namespace ffrfs
