// Finds the records of a part of the tree, for `ffrfs warm`.
//
// Thread-safe; may wait for an index, even for one that is far.

#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tree/tree.h"

namespace ffrfs {

struct WarmedPart {
  using Copy = std::pair<uint64_t, Ino>;  // a record, and a file of it that is not file_of(record)

  std::vector<bool> records;  // of which file_of(record), or the record's directory, is in the part
  std::vector<Copy> copies;  // in the part, sorted

  // Both of records [begin, end).
  [[nodiscard]] std::span<const Copy> copies_of(uint64_t begin, uint64_t end) const {
    return {std::ranges::lower_bound(copies, Copy(begin, 0)),
            std::ranges::lower_bound(copies, Copy(end, 0))};
  }
  [[nodiscard]] uint64_t count(uint64_t begin, uint64_t end) const {
    const auto first = records.begin();
    const auto found = std::count(first + static_cast<std::ptrdiff_t>(begin),
                                  first + static_cast<std::ptrdiff_t>(end), true);
    return static_cast<uint64_t>(found) + copies_of(begin, end).size();
  }
};

// Returns the files (in a tree with subtrees, the records' directories) at or below `ino`. Files
// and directories whose index is damaged are left out.
[[nodiscard]] WarmedPart records_below(const Tree& tree, uint64_t record_count, Ino ino);

}  // namespace ffrfs
