// From opened files of records to their tree: of what kind is it; is there an index, and
// is it sound?

#pragma once

#include <memory>

#include "example/example_folder.h"
#include "record/index_map.h"
#include "shard/shard_set.h"
#include "stats/counters.h"
#include "tree/tree.h"

namespace ffrfs {

enum class TreeKind {
  kFolder,    // packed folders
  kRecords,   // a plain FFRecord file: one file per record
  kExamples,  // TFRecord: one directory per record
};

struct OpenedTree {
  std::unique_ptr<const Tree> tree;
  TreeKind kind;
};

// Of one FFRecord file, or of TFRecord files. Of FFRecord the tree of its mapped index, if it
// has one, of which nothing is read; else a packed folder's tree if the last record begins as
// a pickled index does, whose checksum is then checked, one file per record otherwise. Of
// TFRecord nothing is read. `index` is nullptr, or outlives the tree.
// Throws StorageError, FormatError, UnsafeIndexError, ChecksumError.
[[nodiscard]] OpenedTree open_tree(const ShardSet& shards, const IndexMap* index,
                                   Counters& counters, const ExampleOptions& examples = {});

}  // namespace ffrfs
