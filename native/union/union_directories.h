// Knows which directories the parts of a union share. Takes 16 bytes for each part that has a
// shared directory, and 8 more for each shared directory. A directory that only one part has is not
// in here, and nothing below it is scanned.
//
// Immutable and thread-safe.

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
  // FormatError if they are deeper than 1,024, or more than 2^24; and the errors of the parts.
  explicit UnionDirectories(const UnionParts& parts);

  // Returns the directory in each part that has it, in the order of the parts; {} if it is not
  // shared, or not a directory. `ino` may be any of its members.
  [[nodiscard]] std::span<const Ino> members(Ino ino) const;
  // Returns the inode that the directory is shown with: its first member. Returns any other inode
  // unchanged.
  [[nodiscard]] Ino shown(Ino ino) const;
  // Returns the directory's number among the shared ones; the root is 0. `ino` must be shared.
  [[nodiscard]] size_t number_of(Ino ino) const { return place_of(ino)->group; }
  // Counts each subdirectory once. `ino` must be shared.
  [[nodiscard]] uint64_t subdirectory_count(Ino ino) const;

  [[nodiscard]] size_t count() const { return groups_.size() - 1; }
  [[nodiscard]] size_t member_count() const { return members_.size(); }
  // Returns the members by the directory's number; numbers are breadth-first.
  [[nodiscard]] std::span<const Ino> members_of(size_t number) const;

 private:
  struct Group {
    uint32_t begin = 0;  // in members_
    uint32_t subdirectory_count = 0;
  };
  // Maps a part's own directory to its group.
  struct Place {
    uint32_t own = 0;
    uint32_t group = 0;
  };

  void add(std::span<const Ino> members);
  void add_subdirectories(size_t group);
  [[nodiscard]] const Place* place_of(Ino ino) const;  // or nullptr

  const UnionParts& parts_;
  std::vector<Ino> members_;
  std::vector<Group> groups_;  // and one after the last
  std::vector<std::vector<Place>> places_;  // of each part, sorted
};

}  // namespace ffrfs
