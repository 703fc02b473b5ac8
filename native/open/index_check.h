// Checks that a pack's mapped index is sound to its last byte, and that it and the pack have the
// same paths and records: for `ffrfs verify`, because no other code reads both.
//
// Blocks, and takes the memory of the pickle's tree.

#pragma once

#include <string>

#include "record/ffrecord_shard.h"
#include "stats/counters.h"

namespace ffrfs {

// Returns the fault of the index that `indexed` was opened with, or of the pickle beside it; "" if
// there is none. `plain` is the same file, opened without the index.
[[nodiscard]] std::string find_index_fault(const FfrecordShard& indexed, const ShardSet& plain,
                                           Counters& counters);

}  // namespace ffrfs
