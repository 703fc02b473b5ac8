// Determines the kind of the opened files of records, and makes their tree.

#pragma once

#include <memory>

#include "example/example_folder.h"
#include "record/index_map.h"
#include "shard/shard_set.h"
#include "stats/counters.h"
#include "tree/tree.h"

namespace ffrfs {

enum class TreeKind {
  kFolder,    // packs
  kRecords,   // a plain FFRecord file: one file per record
  kExamples,  // TFRecord: one directory per record
};

struct OpenedTree {
  std::unique_ptr<const Tree> tree;
  TreeKind kind;
};

// Returns whether the last record of `file`, which is an FFRecord file, begins like a pickled index.
[[nodiscard]] bool is_index_record(const Source& file, const Extent& last);

// Makes the tree of one FFRecord file, or of TFRecord files. For FFRecord that is the tree of its
// mapped index, if there is one, without reading it; otherwise the pickle's tree if the last
// record begins like a pickled index, whose checksum is then verified; otherwise one file per
// record. For TFRecord nothing is read. `index` is nullptr, or must outlive the tree. Throws
// StorageError, FormatError, UnsafeIndexError, ChecksumError.
[[nodiscard]] OpenedTree open_tree(const ShardSet& shards, const IndexMap* index,
                                   Counters& counters, const ExampleOptions& examples = {});

}  // namespace ffrfs
