// Mapped indexes made by hand (docs/format.md), so that they can be made wrong: sections as
// bytes, sealed with correct checksums; alone, or in the last record of a pack.

#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/local_file.h"
#include "record/ffrecord_shard.h"
#include "record/header_layout.h"
#include "record/index_layout.h"
#include "record/index_map.h"
#include "scratch.h"
#include "tree_model.h"

namespace ffrfs::test {

using Sections = std::array<Bytes, kSectionCount>;

inline Bytes& section(Sections& sections, Section which) {
  return sections[static_cast<size_t>(which)];
}

template <typename T> void put(Bytes& bytes, size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// Return the CRC-32C of each 64 KiB.
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
  trailer.crc = crc32c(std::as_bytes(std::span(&trailer, 1)).first(offsetof(IndexTrailer, crc)));
}

// Return the index. `trailer` already describes the pack; the rest of it is filled in here.
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

// Return the sections of a pack of `record_count` records and one more for the index.
inline Sections index_sections(const Model& root, uint64_t record_count, uint64_t& link_count) {
  Sections sections;
  Bytes& inodes = section(sections, Section::kInodes);
  Bytes& directories = section(sections, Section::kDirectories);
  Bytes& names = section(sections, Section::kNames);
  Bytes& targets = section(sections, Section::kTargets);
  std::vector<uint32_t> files(record_count + 1, kNoFile);
  struct Placed {
    std::string name;
    const Model* model;
    uint32_t parent;
  };
  std::vector<Placed> placed{{"", &root, 0}};  // by slot
  uint32_t directory_count = 1;                // directories that have a number so far
  link_count = 0;
  for (uint32_t slot = 0, number = 0; slot < placed.size(); ++slot) {
    const Placed of = placed[slot];
    const Model& model = *of.model;
    IndexInode inode{.name_offset = slot == 0 ? 0 : names.size(),
                     .value = 0,
                     .mtime_ns = model.mtime_ns.value_or(kUnknownMtime),
                     .parent = of.parent,
                     .mode = model.mode.value_or(0),
                     .name_size = static_cast<uint16_t>(of.name.size())};
    names += of.name;
    switch (model.kind) {
      case InodeKind::kDirectory: {
        inode.value = number++;
        inode.mode |= S_IFDIR;
        const auto subdirectories = static_cast<uint32_t>(model.subdirectory_count());
        append_le(directories,
                  IndexDirectory{.slot = slot,
                                 .first_child = static_cast<uint32_t>(placed.size()),
                                 .entry_count = static_cast<uint32_t>(model.entries.size()),
                                 .first_subdirectory = directory_count,
                                 .subdirectory_count = subdirectories,
                                 .zero = 0});
        directory_count += subdirectories;
        for (const auto& [name, entry] : model.entries) placed.push_back({name, &entry, slot});
        break;
      }
      case InodeKind::kFile:
        inode.value = model.record;
        inode.mode |= S_IFREG;
        if (files.at(model.record) == kNoFile) files[model.record] = slot;
        break;
      case InodeKind::kSymlink:
        inode.value = targets.size();
        inode.mode |= S_IFLNK;
        append_le(targets, static_cast<uint32_t>(model.target.size()));
        targets += model.target;
        ++link_count;
        break;
    }
    append_le(inodes, inode);
  }
  for (const uint32_t slot : files) append_le(section(sections, Section::kFiles), slot);
  return sections;
}

// Return the sections of a root with these files, sorted: record i is file i. They fit a pack with
// one record more, the index itself.
inline Sections flat_sections(const std::vector<Bytes>& names) {
  Model root;
  root.mtime_ns = 1;
  for (size_t i = 0; i < names.size(); ++i) {
    Model& file = root.entries[names[i]] = file_model(i);
    file.mtime_ns = 1'000'000'000 + static_cast<int64_t>(i);
  }
  uint64_t link_count = 0;
  return index_sections(root, names.size(), link_count);
}

// Return n1000000, n1000001, …; with a large `count` the header has several blocks.
inline std::vector<Bytes> many(size_t count) {
  std::vector<Bytes> all;
  for (size_t i = 0; i < count; ++i) all.push_back("n" + std::to_string(1'000'000 + i));
  return all;
}

// Return the header of an FFRecord file whose records have these sizes and checksums.
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

// Return the section Section::kHeader for a header.
inline Bytes header_section(Bytes header, size_t count) {
  put(header, 0, uint32_t{0});
  put(header, 12 + 4 * (count - 1), uint32_t{0});
  return block_checksums(header);
}

// A pack of `records`; its last record holds `pickle` and the index of `sections`. The header
// section is made here.
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
  last.resize(
      (last_offset + last.size() + kIndexAlignment - 1) / kIndexAlignment * kIndexAlignment -
          last_offset,
      '\0');
  pack.index_begin = last_offset + last.size();
  // The last record's size is known before its content, and its own checksum counts as zero.
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

// Return the sidecar of the pack at `path`, whose content must be `pack`.
inline Bytes sidecar_bytes(const std::string& path, const Bytes& pack, Sections sections) {
  struct stat info{};
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

// Return the pack or sidecar with its trailer changed, and the trailer's checksum made to fit.
inline Bytes with_trailer(Bytes file, const std::function<void(IndexTrailer&)>& change) {
  IndexTrailer trailer;
  const size_t at = file.size() - sizeof trailer;
  std::memcpy(&trailer, file.data() + at, sizeof trailer);
  change(trailer);
  seal(trailer);
  put(file, at, trailer);
  return file;
}

// A pack on disk with its index open.
struct IndexedFile {
  IndexedFile(const TemporaryFolder& folder, const std::string& name, const Sections& sections,
              uint64_t record_count, uint64_t link_count)
      : path(folder.write(name, pack_bytes(sections, record_count, link_count))), file(path) {
    const uint64_t last = ffrecord_header_size(record_count + 1);  // the others are empty
    index =
        IndexMap::in_pack({.file = file, .record_count = record_count + 1, .last_offset = last});
  }

  static Bytes pack_bytes(const Sections& sections, uint64_t record_count, uint64_t link_count) {
    PackedIndex pack = indexed_pack(std::vector<Bytes>(record_count), sections);
    pack.trailer.link_count = link_count;
    seal(pack.trailer);
    put(pack.file, pack.file.size() - sizeof pack.trailer, pack.trailer);
    return pack.file;
  }

  std::string path;
  LocalFile file;
  std::unique_ptr<const IndexMap> index;
};

// A shard must give the same extents with an index as without.
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
