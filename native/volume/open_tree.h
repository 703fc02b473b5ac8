// From an opened FFRecord file to its tree: is there an index, and is it sound?

#pragma once

#include <memory>

#include "record/shard_set.h"
#include "tree/tree.h"
#include "volume/counters.h"

namespace ffrfs {

struct OpenedTree {
  std::unique_ptr<const Tree> tree;
  bool is_folder = false;
};

// A packed folder's tree if the last record begins as an index does, one file per
// record otherwise. The index's checksum is always checked. Throws StorageError,
// FormatError, UnsafeIndexError, ChecksumError.
[[nodiscard]] OpenedTree open_tree(const ShardSet& shards, Counters& counters);

}  // namespace ffrfs
