// One FFRecord file, opened once for all uses: its records, its mapped index, and its tree.
//
// Immutable and thread-safe.

#pragma once

#include <memory>
#include <string>

#include "io/source.h"
#include "open/open_tree.h"
#include "record/ffrecord_shard.h"
#include "shard/shard_set.h"
#include "stats/counters.h"

namespace ffrfs {

class Pack {
 public:
  // Opens the file with its index, if that is sound. Throws StorageError, FormatError.
  explicit Pack(std::unique_ptr<const Source> file);

  [[nodiscard]] const FfrecordShard& shard() const {
    return static_cast<const FfrecordShard&>(shards_.shard(0));
  }
  [[nodiscard]] const ShardSet& shards() const { return shards_; }  // exactly one
  [[nodiscard]] ShardSet take_shards() && { return std::move(shards_); }

  // See open_tree(). The result refers to the shard.
  [[nodiscard]] OpenedTree open_tree(Counters& counters) const {
    return ffrfs::open_tree(shards_, shard().index(), counters);
  }

 private:
  ShardSet shards_;
};

// Opens the same file without its index: the tables of its header are read, and verified as a
// whole. Throws StorageError, FormatError.
[[nodiscard]] ShardSet open_header(const FfrecordShard& shard);

}  // namespace ffrfs
