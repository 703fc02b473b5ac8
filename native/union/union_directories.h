// Which directories the parts of a union share: 16 bytes for each part that has one, and 8
// more for each of them. A directory that only one part has is not known here, and nothing
// below it is looked at.
//
// Immutable: any number of threads.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tree/tree.h"
#include "union/union_part.h"

namespace ffrfs {

class UnionDirectories {
 public:
  // Walks the directories that several parts have, from the root, which all have. Throws
  // FormatError: deeper than 1,024, more than 2^24 to remember; and what the parts throw.
  explicit UnionDirectories(const UnionParts& parts);

  // The directory in each part that has it, in the order of the parts; {}: it is not
  // shared, or none. `ino` may be any of them.
  [[nodiscard]] std::span<const Ino> members(Ino ino) const;
  // The inode by which the directory is shown: the first of its members. Of anything that
  // is not shared: itself.
  [[nodiscard]] Ino shown(Ino ino) const;
  // Of the directory among the shared ones, from 0, the root. `ino` must be shared.
  [[nodiscard]] size_t number_of(Ino ino) const { return place_of(ino)->group; }
  // Each of them once. `ino` must be shared.
  [[nodiscard]] uint64_t subdirectory_count(Ino ino) const;

  [[nodiscard]] size_t count() const { return groups_.size() - 1; }
  [[nodiscard]] size_t member_count() const { return members_.size(); }
  // By the number of the directory; breadth-first.
  [[nodiscard]] std::span<const Ino> members_of(size_t number) const;
  [[nodiscard]] uint64_t memory_bytes() const;

 private:
  struct Group {
    uint32_t begin = 0;  // in members_
    uint32_t subdirectory_count = 0;
  };
  // Where a part's own directory belongs.
  struct Place {
    uint32_t own = 0;
    uint32_t group = 0;
  };

  void add(std::span<const Ino> members);
  void add_subdirectories(size_t group);
  [[nodiscard]] const Place* place_of(Ino ino) const;  // or nullptr

  const UnionParts& parts_;
  std::vector<Ino> members_;
  std::vector<Group> groups_;               // and one behind the last
  std::vector<std::vector<Place>> places_;  // of each part, sorted
};

}  // namespace ffrfs
