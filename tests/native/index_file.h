// Mapped indexes made by hand (docs/format.md), so that they can be made wrong: sections as
// bytes, sealed with checksums that fit; alone, or in the last record of a pack.

#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include "record/ffrecord_shard.h"
#include "record/header_layout.h"
#include "record/index_layout.h"
#include "scratch.h"

namespace ffrfs::test {

using Sections = std::array<Bytes, kSectionCount>;

inline Bytes& section(Sections& sections, Section which) {
  return sections[static_cast<size_t>(which)];
}

template <typename T>
void put(Bytes& bytes, size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// CRC-32C of each 64 KiB.
inline Bytes block_checksums(const Bytes& bytes) {
  Bytes checksums;
  for (size_t at = 0; at < bytes.size(); at += kIndexBlockSize) {
    append_le(checksums, crc32c(view(bytes.substr(at, kIndexBlockSize))));
  }
  return checksums;
}

inline void pad_to(Bytes& bytes, size_t multiple) {
  bytes.resize((bytes.size() + multiple - 1) / multiple * multiple, '\0');
}

inline void seal(IndexTrailer& trailer) {
  trailer.crc =
      crc32c(std::as_bytes(std::span(&trailer, 1)).first(offsetof(IndexTrailer, crc)));
}

// The index; `trailer` has what it says of the pack, and is filled in.
inline Bytes index_bytes(const Sections& sections, IndexTrailer& trailer) {
  Bytes index;
  for (size_t i = 0; i < kSectionCount; ++i) {
    trailer.sections[i] = {.offset = index.size(), .size = sections[i].size()};
    index += sections[i];
    pad_to(index, 8);
  }
  Bytes checksums = block_checksums(index);
  trailer.magic = kIndexMagic;
  trailer.version = kIndexVersion;
  trailer.checked_size = index.size();
  trailer.checksums_crc = crc32c(view(checksums));
  pad_to(checksums, 8);
  index += checksums;
  trailer.index_size = index.size() + sizeof trailer;
  seal(trailer);
  append_le(index, trailer);
  return index;
}

// The sections of a root with these files, in order: record i is file i. As an index has
// them for a pack of one record more (its own).
inline Sections flat_sections(const std::vector<Bytes>& names) {
  Sections sections;
  const auto count = static_cast<uint32_t>(names.size());
  append_le(section(sections, Section::kInodes),
            IndexInode{.name_offset = 0, .value = 0, .mtime_ns = 1, .parent = 0,
                       .mode = S_IFDIR | 0755, .name_size = 0});
  append_le(section(sections, Section::kDirectories),
            IndexDirectory{.slot = 0, .first_child = 1, .entry_count = count,
                           .first_subdirectory = 1, .subdirectory_count = 0, .zero = 0});
  for (uint32_t i = 0; i < count; ++i) {
    append_le(section(sections, Section::kInodes),
              IndexInode{.name_offset = section(sections, Section::kNames).size(), .value = i,
                         .mtime_ns = 1'000'000'000 + i, .parent = 0, .mode = S_IFREG | 0644,
                         .name_size = static_cast<uint16_t>(names[i].size())});
    section(sections, Section::kNames) += names[i];
    append_le(section(sections, Section::kFiles), i + 1);
  }
  append_le(section(sections, Section::kFiles), kNoFile);
  return sections;
}

// n1000000, n1000001, ...: as many as it takes to give a header several blocks.
inline std::vector<Bytes> many(size_t count) {
  std::vector<Bytes> all;
  for (size_t i = 0; i < count; ++i) all.push_back("n" + std::to_string(1'000'000 + i));
  return all;
}

// The header of an FFRecord file of records of these sizes and checksums.
inline Bytes header_bytes(const std::vector<uint64_t>& sizes,
                          const std::vector<uint32_t>& checksums) {
  Bytes header(4, '\0');
  append_le(header, static_cast<int64_t>(sizes.size()));
  for (const uint32_t checksum : checksums) append_le(header, checksum);
  uint64_t offset = ffrecord_header_size(sizes.size());
  for (const uint64_t size : sizes) {
    append_le(header, offset);
    offset += size;
  }
  put(header, 0, crc32(view(header).subspan(4)));
  return header;
}

// Section::kHeader of a header.
inline Bytes header_section(Bytes header, size_t count) {
  put(header, 0, uint32_t{0});
  put(header, 12 + 4 * (count - 1), uint32_t{0});
  return block_checksums(header);
}

// A pack of `records` and, behind them, the record of `pickle` and the index of `sections`,
// whose header section is made here.
struct PackedIndex {
  Bytes file;
  size_t index_begin = 0;
  IndexTrailer trailer{};
};

inline PackedIndex indexed_pack(const std::vector<Bytes>& records, Sections sections,
                                const Bytes& pickle = "\x80\x04}.") {
  std::vector<uint64_t> sizes;
  std::vector<uint32_t> checksums;
  uint64_t last_offset = ffrecord_header_size(records.size() + 1);
  for (const Bytes& record : records) {
    sizes.push_back(record.size());
    checksums.push_back(crc32(view(record)));
    last_offset += record.size();
  }
  PackedIndex pack;
  Bytes last = Bytes(kFolderMagic) + pickle;
  last.resize((last_offset + last.size() + kIndexAlignment - 1) / kIndexAlignment *
                      kIndexAlignment - last_offset, '\0');
  pack.index_begin = last_offset + last.size();
  // Its size is known before its content, and its own checksum counts as zero.
  checksums.push_back(0);
  sizes.push_back(0);
  section(sections, Section::kHeader) =
      header_section(header_bytes(sizes, checksums), sizes.size());
  pack.trailer.record_count = sizes.size();
  pack.trailer.pack_size = pack.index_begin + index_bytes(sections, pack.trailer).size();
  last += index_bytes(sections, pack.trailer);
  sizes.back() = last.size();
  checksums.back() = crc32(view(last));
  pack.file = header_bytes(sizes, checksums);
  for (const Bytes& record : records) pack.file += record;
  pack.file += last;
  return pack;
}

// The sidecar of the pack at `path`, which must be what `pack` holds now.
inline Bytes sidecar_bytes(const std::string& path, const Bytes& pack, Sections sections) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) throw std::runtime_error("stat failed");
  IndexTrailer trailer{};
  std::memcpy(&trailer.record_count, pack.data() + 4, 8);
  std::memcpy(&trailer.pack_header_crc, pack.data(), 4);
  trailer.pack_size = pack.size();
  trailer.pack_mtime_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  const Bytes header = pack.substr(0, ffrecord_header_size(trailer.record_count));
  section(sections, Section::kHeader) = header_section(header, trailer.record_count);
  return index_bytes(sections, trailer);
}

// The trailer of the pack's or sidecar's bytes, changed, under a checksum that fits.
inline Bytes with_trailer(Bytes file, const std::function<void(IndexTrailer&)>& change) {
  IndexTrailer trailer;
  const size_t at = file.size() - sizeof trailer;
  std::memcpy(&trailer, file.data() + at, sizeof trailer);
  change(trailer);
  seal(trailer);
  put(file, at, trailer);
  return file;
}

// What a shard must give with an index as without.
inline void check_same_extents(const FfrecordShard& one, const FfrecordShard& other) {
  REQUIRE(one.count() == other.count());
  CHECK(one.byte_count() == other.byte_count());
  for (uint64_t i = 0; i < one.count(); ++i) {
    const Extent a = one.extent(i);
    const Extent b = other.extent(i);
    REQUIRE(a.offset == b.offset);
    REQUIRE(a.size == b.size);
    REQUIRE(a.crc32 == b.crc32);
  }
}

}  // namespace ffrfs::test
