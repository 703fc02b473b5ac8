// Several files of records as one index space, in the order given.
//
// Immutable after opening except for the checksums that were seen. Thread-safe.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shard/extent.h"
#include "shard/seen_checksums.h"
#include "shard/shard.h"

namespace ffrfs {

class ShardSet {
 public:
  // Takes at least one shard.
  explicit ShardSet(std::vector<std::unique_ptr<const Shard>> shards);

  // Takes at least one set; concatenates their shards.
  [[nodiscard]] static ShardSet join(std::vector<ShardSet> sets);

  [[nodiscard]] uint64_t count() const { return starts_.back(); }
  [[nodiscard]] uint64_t byte_count() const;  // of all records
  // Returns the files whose metadata is not verified (see Shard).
  [[nodiscard]] std::vector<std::string> unverified_paths() const;
  [[nodiscard]] size_t shard_count() const { return shards_.size(); }
  [[nodiscard]] const Shard& shard(size_t index) const { return *shards_[index]; }

  // Returns the extent of `record`, a number among all records; Extent::record counts within its
  // shard. Throws RangeError unless record < count().
  [[nodiscard]] Extent extent(uint64_t record) const;

  // Returns Extent::shard and Extent::record, without the index of the shard. Throws RangeError.
  [[nodiscard]] std::pair<uint32_t, uint64_t> place(uint64_t record) const;

  // Returns the size of each record. Throws as extent() does.
  [[nodiscard]] std::vector<uint64_t> sizes(std::span<const uint64_t> records) const;

  // Returns the number of the first record of shard `index` among all.
  [[nodiscard]] uint64_t start(size_t index) const { return starts_[index]; }

  [[nodiscard]] const Source& file_of(const Extent& extent) const {
    return shards_[extent.shard]->file();
  }

  // From now on a record must keep the checksum that it is first seen with; any other is an error
  // (record_checksum.h). For records whose checksum is stored beside their bytes, if data computed
  // from the bytes is used later. Must be called before other threads use the set.
  void keep_checksums() { seen_ = std::make_unique<SeenChecksums>(count()); }
  // For a record whose bytes match `checksum`: returns false if they matched another before.
  [[nodiscard]] bool keeps(const Extent& extent, uint32_t checksum) const {
    return !seen_ || seen_->is_first(starts_[extent.shard] + extent.record, checksum);
  }

 private:
  // Returns the shard that has the record. Throws RangeError.
  [[nodiscard]] size_t index_of(uint64_t record) const;

  std::vector<std::unique_ptr<const Shard>> shards_;
  std::vector<uint64_t> starts_;  // first record of each shard; the total at the end
  std::unique_ptr<SeenChecksums> seen_;
};

}  // namespace ffrfs
