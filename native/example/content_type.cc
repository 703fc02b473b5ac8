#include "example/content_type.h"

#include <algorithm>
#include <cstdint>

#include "io/little_endian.h"
#include "tfrecord/example.h"

namespace ffrfs {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view bytes;
  std::string_view extension;
};

// Formats that are recognised by their first bytes. Signatures of two bytes are below.
constexpr Signature kSignatures[] = {
    {"\xFF\xD8\xFF"sv, ".jpg"},
    {"\x89PNG\r\n\x1A\n"sv, ".png"},
    {"GIF87a"sv, ".gif"},
    {"GIF89a"sv, ".gif"},
    {"II*\0"sv, ".tiff"},
    {"MM\0*"sv, ".tiff"},
    {"\x93NUMPY"sv, ".npy"},
    {"\0\0\0\x0CjP  \r\n\x87\n"sv, ".jp2"},
    {"\0\0\0\x0CJXL \r\n\x87\n"sv, ".jxl"},
    {"\x76\x2F\x31\x01"sv, ".exr"},
    {"fLaC"sv, ".flac"},
    {"OggS"sv, ".ogg"},
    {"ID3"sv, ".mp3"},
    {"%PDF-"sv, ".pdf"},
    {"\x89HDF\r\n\x1A\n"sv, ".h5"},
    {"PAR1"sv, ".parquet"},
    {"\x1F\x8B\x08"sv, ".gz"},
    {"\xFD"
     "7zXZ\0"sv,
     ".xz"},
    {"\x28\xB5\x2F\xFD"sv, ".zst"},
    {"PK\5\6"sv, ".zip"},  // an empty archive
};

bool has(std::string_view content, size_t at, std::string_view bytes) {
  return content.size() >= at + bytes.size() && content.substr(at, bytes.size()) == bytes;
}

uint32_t u32_at(std::string_view content, size_t at) {
  return load_le<uint32_t>(std::as_bytes(std::span(content)), at);
}

std::string_view riff(std::string_view content) {
  if (!has(content, 0, "RIFF")) return {};
  if (has(content, 8, "WEBP")) return ".webp";
  if (has(content, 8, "WAVE")) return ".wav";
  if (has(content, 8, "AVI ")) return ".avi";
  return {};
}

// ISO base media: a box "ftyp", then the brand.
std::string_view iso_media(std::string_view content) {
  if (!has(content, 4, "ftyp")) return {};
  if (has(content, 8, "avif")) return ".avif";
  if (has(content, 8, "heic")) return ".heic";
  if (has(content, 8, "qt  ")) return ".mov";
  if (has(content, 8, "M4A ")) return ".m4a";
  return ".mp4";
}

// EBML: the document type is in the header, within a few dozen bytes.
std::string_view matroska(std::string_view content) {
  constexpr size_t kHeaderSizeMax = 64;
  if (!has(content, 0, "\x1A\x45\xDF\xA3")) return {};
  const bool is_webm = content.substr(0, kHeaderSizeMax).find("webm") != std::string_view::npos;
  return is_webm ? ".webm" : ".mkv";
}

// A ZIP archive whose first member is an array is NumPy's.
std::string_view zip(std::string_view content) {
  constexpr size_t kName = 30;  // after the local header
  if (!has(content, 0, "PK\3\4")) return {};
  if (content.size() < kName) return ".zip";
  const size_t size = load_le<uint16_t>(std::as_bytes(std::span(content)), 26);
  return content.substr(kName, size).ends_with(".npy") ? ".npz" : ".zip";
}

// "BM" alone is not enough: the size of the second header must be a known one.
std::string_view bitmap(std::string_view content) {
  constexpr uint32_t kHeaderSizes[] = {12, 40, 52, 56, 64, 108, 124};
  if (!has(content, 0, "BM") || content.size() < 26) return {};
  return std::ranges::find(kHeaderSizes, u32_at(content, 14)) != std::end(kHeaderSizes) ? ".bmp"sv
                                                                                        : ""sv;
}

// A frame of MPEG layer III without a tag before it: 11 bits of sync, then fields that must not
// have their invalid values.
std::string_view mpeg_audio(std::string_view content) {
  if (content.size() < 4) return {};
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(content[i]); };
  const bool is_layer_3 = byte(0) == 0xFF && (byte(1) & 0xE6) == 0xE2 && (byte(1) & 0x18) != 0x08;
  const unsigned bit_rate = byte(2) >> 4;
  const unsigned sample_rate = byte(2) >> 2 & 3U;
  return is_layer_3 && bit_rate != 0 && bit_rate != 15 && sample_rate != 3 ? ".mp3"sv : ""sv;
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7F;
}

// `text` follows the opening bracket of an array. Returns whether it begins like a value, or closes
// the array.
bool begins_value(std::string_view text) {
  return "\"{[]-0123456789"sv.find(text[0]) != std::string_view::npos || text.starts_with("true") ||
         text.starts_with("false") || text.starts_with("null");
}

// Returns whether the text begins and ends like an object or an array; does not parse the rest.
bool is_json(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  const bool is_object = text.starts_with('{') && text.ends_with('}');
  const bool is_array = text.starts_with('[') && text.ends_with(']');
  if (!is_object && !is_array) return false;
  text.remove_prefix(1);
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  if (is_array) return begins_value(text);
  return text.starts_with('"') || text.starts_with('}');
}

std::string_view text_type(std::string_view content) {
  if (std::ranges::any_of(content, is_control) || wire::check_name(content)) return {};
  return is_json(content) ? ".json" : ".txt";
}

}  // namespace

std::string_view extension_of(std::span<const std::byte> content) {
  const std::string_view bytes = wire::text(content);
  if (bytes.empty()) return {};
  for (const Signature& signature : kSignatures) {
    if (bytes.starts_with(signature.bytes)) return signature.extension;
  }
  for (const auto& recognise : {riff, iso_media, matroska, zip, bitmap, mpeg_audio, text_type}) {
    if (const std::string_view extension = recognise(bytes); !extension.empty()) return extension;
  }
  return {};
}

}  // namespace ffrfs
