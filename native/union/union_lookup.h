// Finds a name in a shared directory, by asking the parts that have the directory.
//
// Shards that were packed in the order of their paths have names that ascend from part to part;
// then a binary search over their first names finds the part, and only that one is asked. Otherwise
// the parts are asked one after the other, the one that wins conflicts first; also if one of these
// names cannot be read.
//
// Immutable except for its caches: 8 bytes for every shared directory, and the first names of each
// that was asked for, up to a limit; beyond it the parts are asked one after the other, too.
// Thread-safe; takes a lock only to cache first names. Does not survive fork() (see
// io/process_local.h).

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/tree.h"
#include "union/union_directories.h"
#include "union/union_part.h"

namespace ffrfs {

class UnionLookup {
 public:
  // Both must outlive this object.
  UnionLookup(const UnionParts& parts, const UnionDirectories& directories);

  // Returns 0 if no part has the name. `directory` must be shared. Throws the errors of the parts.
  [[nodiscard]] Ino find(Ino directory, std::string_view name) const;

 private:
  static constexpr uint64_t kNamesLimitBytes = uint64_t{16} << 20;

  // The first name of each of a directory's parts; empty: they are not in order.
  using FirstNames = std::vector<std::string>;

  [[nodiscard]] Ino find_in_parts(size_t number, std::string_view name) const;
  [[nodiscard]] const FirstNames& first_names(size_t number) const;
  // Returns the first names if every name of a part is after all names of the part before it; only
  // a directory that spans two parts may be the last in one and the first in the next.
  [[nodiscard]] FirstNames find_first_names(std::span<const Ino> directories) const;
  [[nodiscard]] Ino find_in_turn(std::span<const Ino> directories, std::string_view name) const;

  const UnionParts& parts_;
  const UnionDirectories& directories_;
  // By the directory's number; nullptr: not computed yet.
  const std::unique_ptr<std::atomic<const FirstNames*>[]> known_;
  mutable std::mutex mutex_;  // guards all below
  mutable std::deque<FirstNames> kept_;
  mutable uint64_t kept_bytes_ = 0;
};

}  // namespace ffrfs
