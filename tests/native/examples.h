// Examples as bytes: the golden ones, and protobuf messages made by hand (so that they can
// be wrong, or encoded as no library would encode them).

#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "golden.h"
#include "scratch.h"

namespace ffrfs::test {

inline Bytes varint(uint64_t value) {
  Bytes bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

inline Bytes tag(uint32_t number, uint32_t wire_type) { return varint(number << 3 | wire_type); }

// A length-delimited field.
inline Bytes field(uint32_t number, const Bytes& content) {
  return tag(number, 2) + varint(content.size()) + content;
}

inline Bytes fixed32(float value) {
  Bytes bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// The kinds of a Feature.
inline Bytes bytes_list(const std::vector<Bytes>& values) {
  Bytes list;
  for (const Bytes& value : values) list += field(1, value);
  return field(1, list);
}
inline Bytes float_list(const std::vector<float>& values) {
  Bytes packed;
  for (const float value : values) packed += fixed32(value);
  return field(2, values.empty() ? "" : field(1, packed));
}
inline Bytes int64_list(const std::vector<int64_t>& values) {
  Bytes packed;
  for (const int64_t value : values) packed += varint(static_cast<uint64_t>(value));
  return field(3, values.empty() ? "" : field(1, packed));
}

// An entry of Features or FeatureLists.
inline Bytes entry(const Bytes& name, const Bytes& value) {
  return field(1, field(1, name) + field(2, value));
}
inline Bytes example(const Bytes& entries) { return field(1, entries); }

// Return the records of a file in golden/tf. The file must be sound.
inline std::vector<Bytes> golden_records(const char* name) {
  const Bytes all = content_of(golden_folder() / "tf" / name);
  std::vector<Bytes> records;
  for (size_t at = 0; at < all.size();) {
    uint64_t size = 0;
    std::memcpy(&size, all.data() + at, sizeof size);
    records.push_back(all.substr(at + 12, size));
    at += size + 16;
  }
  if (records.empty()) throw std::runtime_error(std::string("no records in tf/") + name);
  return records;
}

// Return the records of both files that are small enough to be damaged many times.
inline std::vector<Bytes> small_golden_records() {
  std::vector<Bytes> small = golden_records("examples.tfrecord");
  std::ranges::move(golden_records("sequences.tfrecord"), std::back_inserter(small));
  std::erase_if(small, [](const Bytes& record) { return record.size() >= 4000; });
  return small;
}

}  // namespace ffrfs::test
