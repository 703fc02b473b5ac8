// Whether a pack's mapped index is sound to its last byte, and says of every path and record
// what the pack itself says: for `ffrfs verify`, since nothing else reads both.
//
// Blocks, and takes the memory of the pickle's tree.

#pragma once

#include <string>

#include "record/ffrecord_shard.h"
#include "stats/counters.h"

namespace ffrfs {

// What is wrong with the index that `indexed` was opened with, or with the pickle beside it;
// "": nothing. `plain` is the same file, opened without.
[[nodiscard]] std::string find_index_fault(const FfrecordShard& indexed, const ShardSet& plain,
                                           Counters& counters);

}  // namespace ffrfs
