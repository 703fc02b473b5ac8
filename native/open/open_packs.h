// What a volume is made of: the files of records behind some paths, and the one tree that
// they show. Several packed folders become one; a set of shards must be complete.

#pragma once

#include <string>
#include <vector>

#include "example/example_folder.h"
#include "io/local_file.h"
#include "open/open_tree.h"
#include "shard/shard_set.h"
#include "stats/counters.h"
#include "union/union_tree.h"

namespace ffrfs {

struct PackPolicy {
  OnConflict on_conflict = OnConflict::kError;  // the same path in several packs
  bool allow_missing = false;  // packs that cannot be opened, shards that a set lacks
  ExampleOptions examples{};
  OpenSource open_source = open_local_file;  // where the files of records are
};

struct OpenedPacks {
  ShardSet shards;
  OpenedTree opened;  // refers to the indexes of `shards`
  std::vector<std::string> warnings;  // what was left aside, a line each
};

// Opens `paths` (find_record_files()). Throws StorageError, FormatError (also for a path
// that is in two packs, and for a set that lacks shards), TruncatedError,
// UnsafeIndexError, ChecksumError.
[[nodiscard]] OpenedPacks open_packs(const std::vector<std::string>& paths,
                                     const PackPolicy& policy, Counters& counters);

}  // namespace ffrfs
