// Several packs as one tree.
//
//   ino = part << 40 | the part's own ino     parts are numbered as they were given
//
// A directory that several parts have is one directory, with the ino, the mode and the time that it
// has in the first of them; only these directories take memory (union_directories.h). All other
// calls go to the part.
//
// A path that several parts have and that cannot be merged (a file or link, against anything) is a
// conflict: either an error at opening, or only that of the first or last part is shown.
//
// Immutable except for the caches of listings (union_listing.h) and of names (union_lookup.h), of
// which each process has its own. Thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/process_local.h"
#include "tree/tree.h"
#include "union/union_directories.h"
#include "union/union_listing.h"
#include "union/union_lookup.h"
#include "union/union_part.h"

namespace ffrfs {

class UnionTree final : public Tree {
 public:
  // Takes at least one part. Throws FormatError: at a conflict, naming the path and both packs; for
  // too many parts (65,536) or shared directories; and the errors of the parts.
  UnionTree(std::vector<UnionPart> parts, OnConflict on_conflict);

  [[nodiscard]] std::optional<Inode> inode(Ino ino) const override;
  [[nodiscard]] std::vector<Inode> inodes(std::span<const Ino> inos) const override;
  [[nodiscard]] Ino lookup(Ino parent, std::string_view name) const override;
  [[nodiscard]] std::vector<Dentry> list(Ino directory, uint64_t start,
                                         uint64_t limit) const override;
  // Includes those that a conflict hides.
  [[nodiscard]] std::vector<Dentry> subdirectories(Ino directory, uint64_t start,
                                                   uint64_t limit) const override;
  [[nodiscard]] size_t shard_of(Ino ino) const override { return UnionParts::number_of(ino); }
  [[nodiscard]] std::string target(Ino ino) const override;
  [[nodiscard]] std::string name(Ino ino) const override;
  // May return a file that a conflict hides.
  [[nodiscard]] Ino file_of(uint64_t record) const override;
  // These count what a conflict hides, too: to find it, all entries would have to be compared.
  [[nodiscard]] uint64_t file_count() const override { return file_count_; }
  [[nodiscard]] uint64_t directory_count() const override { return directory_count_; }
  [[nodiscard]] uint64_t link_count() const override { return link_count_; }

 private:
  // Returns false for the inodes of a shared directory in all parts but the first that has it.
  [[nodiscard]] bool is_shown(Ino ino) const;

  // Merges what a part says of `ino` with the other parts, if it is a shared directory.
  [[nodiscard]] Inode merged(Ino ino, Inode inode) const;

  const UnionParts parts_;
  const UnionDirectories directories_;
  mutable ProcessLocal<UnionLookup> lookup_;
  mutable ProcessLocal<UnionListing> listing_;
  uint64_t file_count_ = 0;
  uint64_t directory_count_ = 0;
  uint64_t link_count_ = 0;
};

}  // namespace ffrfs
