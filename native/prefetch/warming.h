// What `ffrfs warm` names, as records.
//
// Any thread; it may wait for an index, also for one that is far away.

#pragma once

#include <cstdint>
#include <vector>

#include "tree/tree.h"

namespace ffrfs {

// By record number: whether it is a file, or (in a tree with subtrees) a folder, at or below
// `ino`. What lies behind damage of the index is left out.
[[nodiscard]] std::vector<bool> records_below(const Tree& tree, uint64_t record_count, Ino ino);

}  // namespace ffrfs
