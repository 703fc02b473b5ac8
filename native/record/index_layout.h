// The layout of a mapped index in a file (docs/format.md), for its reader and its writer.
//
//   [ section 0 | section 1 | ... | section 8 ]   each from a multiple of 8; the checked bytes
//   [ CRC-32C of each 64 KiB of those ]           padded to a multiple of 8
//   [ IndexTrailer ]
//
// The structs are the bytes themselves: little-endian, without gaps.
// Not here: reading them (index_map.h).

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ffrfs {

enum class Section : uint8_t {
  kInodes,       // IndexInode, by slot
  kDirectories,  // IndexDirectory, by their slots
  kNames,        // bytes
  kTargets,      // of links: u32 size and the bytes
  kFiles,        // u32 for each record: the slot of the first file that shows it, or kNoFile
  kChunked,      // ChunkedRecord, ascending
  kChunks,       // u32 CRC-32C of each 1 MiB of the chunked records
  kHeader,       // u32 CRC-32C of each 64 KiB of the pack's header
  kSet,          // empty, or an IndexSet
};
inline constexpr size_t kSectionCount = 9;

inline constexpr std::array<char, 8> kIndexMagic{'f', 'f', 'r', 'f', 's', 'i', 'd', 'x'};
inline constexpr uint32_t kIndexVersion = 1;

inline constexpr uint64_t kIndexBlockSize = 65536;  // that one checksum covers
inline constexpr uint64_t kIndexChunkSize = uint64_t{1} << 20;  // of large records
inline constexpr uint64_t kIndexAlignment = 4096;               // in a pack, of its first byte

inline constexpr uint64_t kSlotLimit = 0xfffffffe;                // inodes
inline constexpr uint64_t kNamesSizeLimit = uint64_t{1} << 48;    // all names together
inline constexpr uint32_t kTargetSizeLimit = 4095;                // of one link
inline constexpr uint32_t kNoFile = 0xffffffff;                   // in Section::kFiles
inline constexpr int64_t kUnknownMtime = INT64_MIN;               // with mode 0: unknown

// The last record of a packed directory begins with this; the pickle follows.
inline constexpr std::string_view kFolderMagic = "piouhjgbr";

struct IndexInode {
  uint64_t name_offset;  // in kNames; root: 0
  uint64_t value;  // file: record; directory: its number in kDirectories; link: in kTargets
  int64_t mtime_ns;  // since 1970, or kUnknownMtime
  uint32_t parent;  // slot; root: 0
  uint16_t mode;  // S_IFREG, S_IFDIR or S_IFLNK, and permissions
  uint16_t name_size;  // 1 to 255; root: 0
};
static_assert(sizeof(IndexInode) == 32 && offsetof(IndexInode, name_size) == 0x1e);

struct IndexDirectory {
  uint32_t slot;
  uint32_t first_child;  // slot
  uint32_t entry_count;  // its entries are [first_child, first_child + entry_count)
  uint32_t first_subdirectory;  // number in kDirectories
  uint32_t subdirectory_count;
  uint32_t zero;
};
static_assert(sizeof(IndexDirectory) == 24);

struct ChunkedRecord {
  uint64_t record;
  uint64_t first_chunk;  // in kChunks, counted in checksums
};
static_assert(sizeof(ChunkedRecord) == 16);

struct IndexSet {
  std::array<std::byte, 16> id;  // of the set of shards
  uint32_t number;  // of this shard, from 0
  uint32_t count;  // of shards when it was written
  uint64_t zero;
};
static_assert(sizeof(IndexSet) == 32);

struct SectionPlace {
  uint64_t offset;  // in the index
  uint64_t size;  // in bytes
};

struct IndexTrailer {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t flags;  // 0
  uint64_t index_size;
  uint64_t checked_size;
  uint64_t record_count;
  uint64_t pack_size;
  int64_t pack_mtime_ns;  // 0 in a pack
  uint32_t pack_header_crc;  // as in the pack's header; 0 in a pack
  uint32_t checksums_crc;  // CRC-32C of the block checksums
  std::array<SectionPlace, kSectionCount> sections;
  uint64_t link_count;  // symbolic links among the inodes
  std::array<std::byte, 36> zero;
  uint32_t crc;  // CRC-32C of all before
};
static_assert(sizeof(IndexTrailer) == 256 && offsetof(IndexTrailer, sections) == 0x40 &&
              offsetof(IndexTrailer, link_count) == 0xd0 && offsetof(IndexTrailer, crc) == 0xfc);

[[nodiscard]] constexpr uint64_t index_block_count(uint64_t size) {
  return size / kIndexBlockSize + (size % kIndexBlockSize != 0);
}
[[nodiscard]] constexpr uint64_t record_chunk_count(uint64_t record_size) {
  return record_size / kIndexChunkSize + (record_size % kIndexChunkSize != 0);
}
// `size` must be below 2^64 - 8.
[[nodiscard]] constexpr uint64_t align_8(uint64_t size) { return (size + 7) & ~uint64_t{7}; }

// Returns the size of the block checksums, with their padding.
[[nodiscard]] constexpr uint64_t index_checksums_size(uint64_t checked_size) {
  return align_8(index_block_count(checked_size) * sizeof(uint32_t));
}

// Returns the size of a section's entries; 1 for bytes.
[[nodiscard]] constexpr uint64_t section_entry_size(Section section) {
  switch (section) {
    case Section::kInodes: return sizeof(IndexInode);
    case Section::kDirectories: return sizeof(IndexDirectory);
    case Section::kChunked: return sizeof(ChunkedRecord);
    case Section::kFiles:
    case Section::kChunks:
    case Section::kHeader: return sizeof(uint32_t);
    case Section::kSet: return sizeof(IndexSet);
    case Section::kNames:
    case Section::kTargets: return 1;
  }
  return 1;
}

[[nodiscard]] constexpr const char* section_name(Section section) {
  constexpr std::array<const char*, kSectionCount> kNames{
      "inodes", "directories", "names", "targets", "files", "chunked", "chunks", "header", "set"};
  return kNames[static_cast<size_t>(section)];
}

}  // namespace ffrfs
