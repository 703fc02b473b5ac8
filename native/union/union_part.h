// The parts of a union (union_tree.h), which are packs, each with a tree of its own; and
// the mapping of their inodes.
//
// A union's ino is the number of the part << 40 | the part's own ino, below 2^32. Inodes here are
// always those of one part: union_directories.h knows which of them are shown as one directory.
//
// Immutable and thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "record/index_layout.h"
#include "tree/tree.h"

namespace ffrfs {

// How a path is shown that several parts have and that is not a directory in each of them.
enum class OnConflict {
  kError,
  kFirst,  // the first part wins
  kLast,
};

struct UnionPart {
  std::unique_ptr<const Tree> tree;  // of a pack
  uint64_t first_record = 0;         // number of its first record in the union; ascending
  std::string pack;                  // its path, for messages
  std::optional<IndexSet> set = std::nullopt;  // the set of shards that it belongs to
};

class UnionParts {
 public:
  // Takes at least one part. Throws FormatError if there are more than 65,536.
  UnionParts(std::vector<UnionPart> parts, OnConflict on_conflict);

  [[nodiscard]] OnConflict on_conflict() const { return on_conflict_; }
  [[nodiscard]] size_t count() const { return parts_.size(); }
  [[nodiscard]] const UnionPart& part(size_t number) const { return parts_[number]; }

  [[nodiscard]] static constexpr Ino ino_of(size_t part, Ino own) {
    return own == 0 ? 0 : uint64_t{part} << kOwnBits | own;
  }
  [[nodiscard]] static constexpr Ino own(Ino ino) { return ino & (kOwnLimit - 1); }
  [[nodiscard]] static constexpr size_t number_of(Ino ino) { return ino >> kOwnBits; }
  // `ino` must belong to an existing part.
  [[nodiscard]] const UnionPart& part_of(Ino ino) const { return parts_[number_of(ino)]; }
  [[nodiscard]] bool has(Ino ino) const { return number_of(ino) < parts_.size(); }
  // Returns the number of the part that has this record of the union, if one has.
  [[nodiscard]] size_t part_of_record(uint64_t record) const;

  // The same as in Tree, in inodes and records of the union. `ino` as for part_of().
  [[nodiscard]] std::optional<Inode> inode(Ino ino) const;
  // `inos` must all be of one part.
  [[nodiscard]] std::vector<Inode> inodes(std::span<const Ino> inos) const;
  [[nodiscard]] Ino lookup(Ino directory, std::string_view name) const;
  [[nodiscard]] std::vector<Dentry> list(Ino directory, uint64_t start, uint64_t limit) const;
  [[nodiscard]] std::vector<Dentry> subdirectories(Ino directory, uint64_t start,
                                                   uint64_t limit) const;
  [[nodiscard]] std::string name(Ino ino) const;

  // Parts with the same number were written as shards of one set, so they have no file in common. A
  // shard that is given twice is a set of its own.
  [[nodiscard]] size_t set_of(Ino ino) const { return sets_[number_of(ino)]; }

 private:
  static constexpr int kOwnBits = 40;
  static constexpr Ino kOwnLimit = Ino{1} << kOwnBits;

  // Converts a part's inode to numbers of the union.
  [[nodiscard]] Inode numbered(size_t part, Inode inode) const;
  [[nodiscard]] static std::vector<Dentry> numbered(size_t part, std::vector<Dentry> entries);

  std::vector<UnionPart> parts_;
  std::vector<size_t> sets_;
  const OnConflict on_conflict_;
};

}  // namespace ffrfs
