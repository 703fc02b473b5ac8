// Opens the input of a volume: the files of records behind some paths, and the one tree of all.
// Several packs become one tree; a set of shards must be complete.

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

// One split of the TFRecord files that are opened: the files after those of the previous split.
struct RecordSplit {
  std::string name;  // directory of its records; a single split named "": the root has them
  size_t file_count = 0;
};

struct PackPolicy {
  OnConflict on_conflict = OnConflict::kError;  // for a path that is in several packs
  bool allow_missing = false;  // of packs that cannot be opened, and of shards of a set
  ExampleOptions examples{};
  // If not empty, the paths are TFRecord files of one data set, in the order of these splits.
  std::vector<RecordSplit> splits{};
  // Files that come after one of these in its directory are left out: they were added since.
  std::vector<std::string> last_files{};
  OpenSource open_source = remote::open_source;  // opens the files of records
};

struct OpenedPacks {
  ShardSet shards;
  OpenedTree opened;  // refers to the indexes of `shards`
  std::vector<std::string> warnings;  // a line for each thing that was left out
};

// Opens `paths` (find_record_files(), or the files of splits). Throws StorageError, FormatError
// (also for a path that is in two packs, and for an incomplete set of shards), TruncatedError,
// UnsafeIndexError, ChecksumError.
[[nodiscard]] OpenedPacks open_packs(const std::vector<std::string>& paths,
                                     const PackPolicy& policy, Counters& counters);

}  // namespace ffrfs
