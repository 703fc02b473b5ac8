// What a volume is made of: the files of records behind some paths, and the one tree that
// they show. Several packed folders become one; a set of shards must be complete.

#pragma once

#include <string>
#include <vector>

#include "example/example_folder.h"
#include "open/open_tree.h"
#include "remote/remote_opener.h"
#include "shard/shard_set.h"
#include "stats/counters.h"
#include "union/union_tree.h"

namespace ffrfs {

// Some of the TFRecord files that are opened: those behind the split before.
struct RecordSplit {
  std::string name;  // of the folder that shows its records; "" alone: the root shows them
  size_t file_count = 0;
};

struct PackPolicy {
  OnConflict on_conflict = OnConflict::kError;  // the same path in several packs
  bool allow_missing = false;  // packs that cannot be opened, shards that a set lacks
  ExampleOptions examples{};
  // Not empty: the paths are TFRecord files of one data set, in the order of these splits.
  std::vector<RecordSplit> splits{};
  OpenSource open_source = remote::open_source;  // where the files of records are
};

struct OpenedPacks {
  ShardSet shards;
  OpenedTree opened;  // refers to the indexes of `shards`
  std::vector<std::string> warnings;  // what was left aside, a line each
};

// Opens `paths` (find_record_files(), or the files of splits). Throws StorageError,
// FormatError (also for a path that is in two packs, and for a set that lacks shards),
// TruncatedError, UnsafeIndexError, ChecksumError.
[[nodiscard]] OpenedPacks open_packs(const std::vector<std::string>& paths,
                                     const PackPolicy& policy, Counters& counters);

}  // namespace ffrfs
