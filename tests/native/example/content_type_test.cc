// native/tree/content_type: formats known by their first bytes, text, and neither.

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "example/content_type.h"
#include "scratch.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::string_literals;

namespace {

std::string extension(const Bytes& content) { return std::string(extension_of(view(content))); }

const std::vector<std::pair<Bytes, std::string>> kSamples = {
    {"\xFF\xD8\xFF\xE0\0\x10JFIF\0"s, ".jpg"},
    {"\x89PNG\r\n\x1A\n\0\0\0\rIHDR"s, ".png"},
    {"GIF87a\1\0\1\0"s, ".gif"},
    {"GIF89a\1\0\1\0"s, ".gif"},
    {"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\2\0\0\0\2\0\0\0\1\0\x18\0"s, ".bmp"},
    {"RIFF\x24\0\0\0WEBPVP8 "s, ".webp"},
    {"RIFF\x24\0\0\0WAVEfmt "s, ".wav"},
    {"RIFF\x24\0\0\0AVI LIST"s, ".avi"},
    {"II*\0\x08\0\0\0"s, ".tiff"},
    {"MM\0*\0\0\0\x08"s, ".tiff"},
    {"\x93NUMPY\1\0v\0{'descr'"s, ".npy"},
    {"PK\3\4\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0x.npydata"s, ".npz"},
    {"PK\3\4\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0x.txt.npy"s, ".zip"},
    {"PK\3\4"s, ".zip"},
    {"PK\5\6\0\0\0\0"s, ".zip"},
    {"\x1F\x8B\x08\0\0\0\0\0"s, ".gz"},
    {"\xFD"
     "7zXZ\0\0\4"s,
     ".xz"},
    {"\x28\xB5\x2F\xFD\4\0"s, ".zst"},
    {"fLaC\0\0\0\x22"s, ".flac"},
    {"OggS\0\2\0\0"s, ".ogg"},
    {"ID3\4\0\0\0\0\0\0"s, ".mp3"},
    {"\xFF\xFB\x90\x64\0\0"s, ".mp3"},
    {"\0\0\0\x20"
     "ftypisom\0\0\2\0"s,
     ".mp4"},
    {"\0\0\0\x14"
     "ftypqt  \0\0\2\0"s,
     ".mov"},
    {"\0\0\0\x1C"
     "ftypavif\0\0\0\0"s,
     ".avif"},
    {"\0\0\0\x18"
     "ftypheic\0\0\0\0"s,
     ".heic"},
    {"\0\0\0\x18"
     "ftypM4A \0\0\0\0"s,
     ".m4a"},
    {"\x1A\x45\xDF\xA3\x9F\x42\x86\x81\1\x42\x82\x84webm"s, ".webm"},
    {"\x1A\x45\xDF\xA3\x9F\x42\x86\x81\1\x42\x82\x88matroska"s, ".mkv"},
    {"\0\0\0\x0CjP  \r\n\x87\n\0\0"s, ".jp2"},
    {"\0\0\0\x0CJXL \r\n\x87\n\0\0"s, ".jxl"},
    {"\x76\x2F\x31\x01\2\0\0\0"s, ".exr"},
    {"%PDF-1.7\n%\xE2\xE3\xCF\xD3\n"s, ".pdf"},
    {"\x89HDF\r\n\x1A\n\0\0"s, ".h5"},
    {"PAR1\x15\4"s, ".parquet"},
    {"png"s, ".txt"},
    {"two lines\r\nand\ta tab\n"s, ".txt"},
    {"Gr\xC3\xBC\xC3\x9F"
     "e \xE2\x82\xAC \xF0\x9F\x98\x80"s,
     ".txt"},
    {"{\"a\": [1, 2]}\n"s, ".json"},
    {" [ ]"s, ".json"},
    {"[-1.5]"s, ".json"},
    {"{}"s, ".json"},
    {"{unquoted}"s, ".txt"},
    {"[true, null]"s, ".json"},
    {"[test]"s, ".txt"},
    {"[section]"s, ".txt"},
    {"[}"s, ".txt"},
    {"{\"a\": 1"s, ".txt"},
    {"{"s, ".txt"},
    {"[\n"s, ".txt"},
    {" \n"s, ".txt"},
    {"BM"s, ".txt"},
    {"RIFF...."s, ".txt"},
};

}  // namespace

TEST_CASE("known formats get their extension by their content") {
  for (const auto& [content, expected] : kSamples) {
    const auto& shown = content;  // A lambda cannot capture a structured binding (C++20).
    CAPTURE(shown);
    CHECK(extension(content) == expected);
  }
}

TEST_CASE("unknown content gets no extension") {
  CHECK(extension("").empty());
  CHECK(extension("\0"s).empty());
  CHECK(extension("text with a \0 in it"s).empty());
  CHECK(extension("text with \x1B[1m an escape"s).empty());
  CHECK(extension("\x7F"
                  "ELF")
            .empty());
  CHECK(extension("Gr\xFC\xDF"
                  "e")
            .empty());  // Latin-1
  CHECK(extension("cut off \xE2\x82").empty());
  CHECK(extension("\xED\xA0\x80").empty());  // a surrogate
  CHECK(extension("BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x29\0\0\0\2\0\0\0\2\0\0\0"s).empty());
  CHECK(extension("\xFF\xFB\xF0\x64\0\0"s).empty());  // without a bit rate
  CHECK(extension("\xFF\xF1\x50\x80\0\0"s).empty());  // AAC: another layer
}

TEST_CASE("text is checked to its end") {
  Bytes text(100000, 'a');
  CHECK(extension(text) == ".txt");
  text.back() = '\1';
  CHECK(extension(text).empty());
}

// Each piece ends where its memory ends, so that a sanitizer sees a read beyond it.
TEST_CASE("content that is cut off anywhere is not read beyond its end") {
  for (const auto& sample : kSamples) {
    for (size_t size = 0; size <= sample.first.size(); ++size) {
      const std::vector<char> piece(sample.first.begin(),
                                    sample.first.begin() + static_cast<ptrdiff_t>(size));
      CHECK(extension_of(std::as_bytes(std::span(piece))).size() <= kExtensionSizeMax);
    }
  }
}

TEST_CASE("random bytes are hardly ever taken for a known format") {
  std::mt19937_64 random(1);
  size_t known = 0;
  for (int i = 0; i < 100000; ++i) {
    Bytes bytes(32, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (!extension(bytes).empty()) ++known;
  }
  CHECK(known < 50);  // mostly frames of MPEG audio
}
