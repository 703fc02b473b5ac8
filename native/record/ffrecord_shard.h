// One FFRecord file, opened for reading: its header, checked, and its extents.
//
//   0x00       u32      CRC-32 of everything from 0x04 to 12 + 12n; 0: an old
//                       writer's, metadata unverified
//   0x04       i64      n, the number of records
//   0x0c       u32[n]   CRC-32 of each record
//   12 + 4n    i64[n]   absolute offset of each record
//   12 + 12n            the records; record i ends where i + 1 begins, the last
//                       one at the end of the file
//
// With a mapped index (index_map.h), in the file or in its sidecar, the header is not read:
// what is asked for is checked by the index's checksums of it, and so is each offset. So
// opening costs the same whatever n is.
//
// Immutable after opening: any number of threads.
// Not here: the records' bytes and the check of their checksums (volume).

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/checked_range.h"
#include "record/header_layout.h"
#include "record/index_map.h"
#include "remote/remote_opener.h"
#include "shard/shard.h"
#include "shard/shard_set.h"

namespace ffrfs {

enum class IndexUse {
  kNone,     // the header is read, and checked as a whole
  kIfSound,  // one that is not is ignored with a warning
};

class FfrecordShard final : public Shard {
 public:
  // Throws StorageError and FormatError (anything but a sound header).
  explicit FfrecordShard(std::shared_ptr<const Source> file, IndexUse use = IndexUse::kNone);
  // Of what a path or a URL names.
  explicit FfrecordShard(const std::string& path, IndexUse use = IndexUse::kNone)
      : FfrecordShard(remote::open_source(path), use) {}

  [[nodiscard]] uint64_t count() const override { return count_; }
  // Throws only with an index.
  [[nodiscard]] Extent extent(uint64_t record) const override;
  [[nodiscard]] std::vector<uint32_t> chunk_checksums(uint64_t record) const override;
  [[nodiscard]] uint64_t byte_count() const override { return byte_count_; }

  // False: the header carries no checksum of itself (an old writer's), nor has an index one.
  [[nodiscard]] bool metadata_verified() const override { return metadata_verified_; }

  // The header's checksum of itself; 0: it has none.
  [[nodiscard]] uint32_t header_crc() const { return stored_crc_; }

  // Of this shard, and gone with it; nullptr: none is in use.
  [[nodiscard]] const IndexMap* index() const { return index_.get(); }

  // One line about an index that was ignored; mostly "".
  [[nodiscard]] std::string warning() const;
  // The same, for a text that names this file already.
  [[nodiscard]] std::string warning_within() const;
  // It was a sidecar of what the pack was before.
  [[nodiscard]] bool is_index_stale() const { return ignored_ && ignored_->is_stale; }

  // count() + 1 values: where each record begins, and the end of the file. Like checksums(),
  // without an index only.
  [[nodiscard]] std::span<const uint64_t> offsets() const { return offsets_; }
  [[nodiscard]] std::span<const uint32_t> checksums() const { return checksums_; }

 private:
  struct IgnoredIndex {
    std::string path;  // of the file that it is in
    std::string reason;
    bool is_stale = false;
  };

  void open(IndexUse use);
  void read_fixed();
  void ask_for_index() const;
  void read_tables();
  void check_offsets() const;
  void find_index();
  template <typename Open>
  [[nodiscard]] bool use_index(const IndexedPack& pack, Open open,
                               std::optional<IgnoredIndex>& ignored);
  void check_header(const IndexedPack& pack);
  [[nodiscard]] Extent checked_extent(uint64_t record) const;
  [[nodiscard]] std::optional<uint64_t> first_chunk(uint64_t record) const;
  [[nodiscard]] uint64_t header_size() const { return ffrecord_header_size(count_); }

  uint64_t count_ = 0;
  uint32_t stored_crc_ = 0;
  uint64_t byte_count_ = 0;
  bool metadata_verified_ = true;

  // Either these ...
  std::vector<uint32_t> checksums_;
  std::vector<uint64_t> offsets_;
  // ... or these.
  std::unique_ptr<const IndexMap> index_;
  std::optional<CheckedRange> header_;
  std::optional<IgnoredIndex> ignored_;
};

// What the first bytes say, if the tables of so many records fit into the file; nothing else is
// looked at. Throws StorageError.
[[nodiscard]] std::optional<uint64_t> claimed_record_count(const Source& file);

// FFRecord files as one index space. Throws what FfrecordShard throws; FormatError if
// `paths` is empty.
[[nodiscard]] ShardSet open_ffrecord_shards(const std::vector<std::string>& paths,
                                            IndexUse use = IndexUse::kNone,
                                            const OpenSource& open = remote::open_source);

}  // namespace ffrfs
