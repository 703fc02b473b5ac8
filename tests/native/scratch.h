// Shared by the core's tests: a temporary folder, file contents, FFRecord images made by hand
// (so that they can be made wrong).

#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/crc.h"

namespace ffrfs::test {

using Bytes = std::string;  // convenient to build and to compare

inline std::span<const std::byte> view(const Bytes& bytes) {
  return std::as_bytes(std::span(bytes));
}

inline Bytes text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Deterministic bytes that do not repeat within a page. Made eight at a time, as tests use -O0.
inline Bytes pattern(size_t size, uint32_t seed) {
  Bytes bytes(size + sizeof(uint64_t), '\0');
  uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (size_t at = 0; at < size; at += sizeof state) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const uint64_t word = state ^ state >> 32;  // the lower bits of `state` alone soon repeat
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
  bytes.resize(size);
  return bytes;
}

inline Bytes content_of(const std::filesystem::path& path) {
  Bytes bytes(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

// A folder on a real disk if TMPDIR names one; it is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ffrfs-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }

  std::string write(const std::string& name, const Bytes& content) const {
    const std::string path = *this / name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  std::filesystem::path path_;
};

// Overwrites the bytes that the file has there.
inline void overwrite(const std::string& path, uint64_t offset, const Bytes& bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(offset));
  file << bytes;
}

// Changes the byte there.
inline void flip_byte(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(offset));
  const auto old = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(old ^ 1));
}

template <typename T> void append_le(Bytes& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Return an FFRecord file as the format page describes it.
inline Bytes ffrecord(const std::vector<Bytes>& records) {
  Bytes tables;
  append_le(tables, static_cast<int64_t>(records.size()));
  for (const Bytes& record : records) append_le(tables, crc32(view(record)));
  auto offset = static_cast<int64_t>(12 + 12 * records.size());
  for (const Bytes& record : records) {
    append_le(tables, offset);
    offset += static_cast<int64_t>(record.size());
  }
  Bytes file;
  append_le(file, crc32(view(tables)));
  file += tables;
  for (const Bytes& record : records) file += record;
  return file;
}

}  // namespace ffrfs::test
