#include "tfrecord/sidecar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "io/error.h"
#include "io/local_file.h"
#include "remote/remote_error.h"
#include "shard/cached_index.h"
#include "tfrecord/framing.h"

namespace ffrfs {
namespace {

// Two numbers of 20 digits, a space and a newline.
constexpr size_t kLineSizeMax = 42;
constexpr size_t kPieceSize = 64 << 10;
// How many frames are checked before a sidecar is trusted.
constexpr uint64_t kSampleCount = 8;

// Removes "<number><end>" from the beginning of `text`; returns nullopt if it is not there.
std::optional<uint64_t> take_number(std::string_view& text, char end) {
  uint64_t value = 0;
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || after == text.data() + text.size() || *after != end) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<size_t>(after - text.data()) + 1);
  return value;
}

// Appends the end of each frame in the complete lines of `text`. Returns false if these are not
// frames of a file of `file_size` bytes.
bool take_lines(std::string_view text, uint64_t file_size, std::vector<uint64_t>& offsets) {
  while (!text.empty()) {
    const auto offset = take_number(text, ' ');
    const auto size = offset ? take_number(text, '\n') : std::nullopt;
    if (!size || *offset != offsets.back() || *size < kFramingSize || *size > file_size - *offset) {
      return false;
    }
    offsets.push_back(*offset + *size);
  }
  return true;
}

bool parse(const Source& sidecar, uint64_t file_size, std::vector<uint64_t>& offsets) {
  std::array<std::byte, kPieceSize> memory;
  size_t kept = 0;  // of a line that the last piece has cut
  for (uint64_t position = 0; position < sidecar.size();) {
    const auto piece = std::span(memory).subspan(
        kept,
        static_cast<size_t>(std::min<uint64_t>(sidecar.size() - position, kPieceSize - kept)));
    sidecar.read_fully(position, piece);
    position += piece.size();
    const std::string_view text(reinterpret_cast<const char*>(memory.data()), kept + piece.size());
    const size_t whole = text.rfind('\n') + 1;  // 0 if there is none
    if (!take_lines(text.substr(0, whole), file_size, offsets)) return false;
    kept = text.size() - whole;
    if (kept > kLineSizeMax) return false;
    std::copy_n(memory.begin() + static_cast<std::ptrdiff_t>(whole), kept, memory.begin());
  }
  return kept == 0 && offsets.back() == file_size;
}

bool is_frame(const Source& file, std::span<const uint64_t> offsets, uint64_t record) {
  try {
    return read_frame_size(file, {record, offsets[record]}) ==
           offsets[record + 1] - offsets[record];
  } catch (const FormatError&) {
    return false;
  }
}

bool samples_are_frames(const Source& file, std::span<const uint64_t> offsets) {
  const uint64_t count = offsets.size() - 1;
  const uint64_t samples = std::min(count, kSampleCount);
  for (uint64_t i = 0; i < samples; ++i) {
    // The first, the last, and evenly between. Cannot overflow: count is below 2^60.
    const uint64_t record = samples == 1 ? 0 : i * (count - 1) / (samples - 1);
    if (!is_frame(file, offsets, record)) return false;
  }
  return true;
}

// Returns an empty vector if the sidecar is unsound or does not exist.
std::vector<uint64_t> read_one(const Source& file, const std::string& path, bool is_beside) {
  std::vector<uint64_t> offsets{0};
  try {
    const LocalFile sidecar(path);
    if (!is_trusted_index(sidecar, file, is_beside)) return {};
    const bool is_plausible = sidecar.mtime_ns() >= file.mtime_ns() &&
                              sidecar.size() <= file.size() / kFramingSize * kLineSizeMax;
    if (!is_plausible || !parse(sidecar, file.size(), offsets)) return {};
  } catch (const StorageError&) {
    return {};
  }
  if (!samples_are_frames(file, offsets)) return {};
  offsets.shrink_to_fit();
  return offsets;
}

}  // namespace

std::vector<std::string> sidecar_paths(const std::string& path) {
  std::vector<std::string> paths{path + ".idx", path + ".tfindex"};
  const size_t name = path.rfind('/') + 1;  // 0 if there is none
  const size_t dot = path.rfind('.');
  if (dot != std::string::npos && dot > name) {  // ".x" has no extension, as for os.path.splitext
    paths.push_back(path.substr(0, dot) + ".idx");
    paths.push_back(path.substr(0, dot) + ".tfindex");
  }
  return paths;
}

std::vector<uint64_t> read_sidecar(const Source& file) {
  const bool is_far = !file.identity().empty() || remote::is_url(file.path());
  for (const std::string& path : is_far ? std::vector<std::string>() : sidecar_paths(file.path())) {
    auto offsets = read_one(file, path, true);
    if (!offsets.empty()) return offsets;
  }
  const std::string cached = cached_index_path(file);
  return cached.empty() ? std::vector<uint64_t>() : read_one(file, cached, false);
}

std::string sidecar_text(std::span<const uint64_t> offsets) {
  std::string text((offsets.size() - 1) * kLineSizeMax, '\0');
  char* end = text.data();
  char* const limit = end + text.size();
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    end = std::to_chars(end, limit, offsets[i]).ptr;
    *end++ = ' ';
    end = std::to_chars(end, limit, offsets[i + 1] - offsets[i]).ptr;
    *end++ = '\n';
  }
  text.resize(static_cast<size_t>(end - text.data()));
  return text;
}

}  // namespace ffrfs
