// Finds the records of a part of the tree, for `ffrfs warm`.
//
// Thread-safe; may wait for an index, even for one that is far.

#pragma once

#include <cstdint>
#include <vector>

#include "tree/tree.h"

namespace ffrfs {

// Returns, by record number, whether the record is a file (in a tree with subtrees, a folder) at or
// below `ino`. Directories whose index is damaged are left out.
[[nodiscard]] std::vector<bool> records_below(const Tree& tree, uint64_t record_count, Ino ino);

}  // namespace ffrfs
