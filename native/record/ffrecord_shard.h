// One FFRecord file, opened for reading: its header, verified, and its extents.
//
//   0x00       u32      CRC-32 of everything from 0x04 to 12 + 12n; 0: an old
//                       writer's, metadata unverified
//   0x04       i64      n, the number of records
//   0x0c       u32[n]   CRC-32 of each record
//   12 + 4n    i64[n]   absolute offset of each record
//   12 + 12n            the records; record i ends where i + 1 begins, the last
//                       one at the end of the file
//
// With a mapped index (index_map.h), in the file or in its sidecar, the header is not read as a
// whole: each part that is used is verified by the index's checksums of the header, and each offset
// is validated. So opening takes the same time for any n.
//
// Immutable after opening, and thread-safe.
// Not here: the records' bytes and the check of their checksums (fetch).

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
  kNone,  // the header is read, and verified as a whole
  kIfSound,  // an unsound index is ignored with a warning
};

class FfrecordShard final : public Shard {
 public:
  // Throws StorageError, and FormatError unless the header is sound.
  explicit FfrecordShard(std::shared_ptr<const Source> file, IndexUse use = IndexUse::kNone);
  // Opens a path or a URL.
  explicit FfrecordShard(const std::string& path, IndexUse use = IndexUse::kNone)
      : FfrecordShard(remote::open_source(path), use) {}

  [[nodiscard]] uint64_t count() const override { return count_; }
  // Throws only with an index.
  [[nodiscard]] Extent extent(uint64_t record) const override;
  [[nodiscard]] std::vector<uint32_t> chunk_checksums(uint64_t record) const override;
  [[nodiscard]] uint64_t byte_count() const override { return byte_count_; }

  // Returns false if neither the header (an old writer's) nor an index has its checksum.
  [[nodiscard]] bool metadata_verified() const override { return metadata_verified_; }

  // Returns the header's checksum of itself; 0 if it has none.
  [[nodiscard]] uint32_t header_crc() const { return stored_crc_; }

  // Returns the index, which lives as long as the shard; nullptr if none is in use.
  [[nodiscard]] const IndexMap* index() const { return index_.get(); }

  // Returns one line about an index that was ignored; usually "".
  [[nodiscard]] std::string warning() const;
  // The same, for a text that names this file already.
  [[nodiscard]] std::string warning_within() const;
  // Returns whether the ignored index was a sidecar of an earlier version of the pack.
  [[nodiscard]] bool is_index_stale() const { return ignored_ && ignored_->is_stale; }

  // Returns count() + 1 values: where each record begins, and the end of the file. Like
  // checksums(), only without an index.
  [[nodiscard]] std::span<const uint64_t> offsets() const { return offsets_; }
  [[nodiscard]] std::span<const uint32_t> checksums() const { return checksums_; }

 private:
  struct IgnoredIndex {
    std::string path;  // of the file that contains the index
    std::string reason;
    bool is_stale = false;
  };

  void open(IndexUse use);
  void read_fixed();
  void ask_for_index() const;
  void read_tables();
  void check_pieces() const;
  void check_offsets(std::span<const uint64_t> offsets, uint64_t first, uint64_t before) const;
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

  // Set without an index:
  std::vector<uint32_t> checksums_;
  std::vector<uint64_t> offsets_;
  // Set with an index:
  std::unique_ptr<const IndexMap> index_;
  std::optional<CheckedRange> header_;
  std::optional<IgnoredIndex> ignored_;
};

// Returns the record count in the first bytes, if the tables of so many records fit into the file;
// checks nothing else. Throws StorageError.
[[nodiscard]] std::optional<uint64_t> claimed_record_count(const Source& file);

// Opens FFRecord files as one index space. Throws what FfrecordShard throws; FormatError if `paths`
// is empty.
[[nodiscard]] ShardSet open_ffrecord_shards(const std::vector<std::string>& paths,
                                            IndexUse use = IndexUse::kNone,
                                            const OpenSource& open = remote::open_source);

}  // namespace ffrfs
