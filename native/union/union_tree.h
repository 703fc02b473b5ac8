// Several packed folders as one tree.
//
//   ino = part << 40 | the part's own ino     parts are numbered as they were given
//
// A directory that several parts have is one directory, with the ino, the mode and the time
// that it has in the first of them; union_directories.h knows those, and is all that takes
// memory. Everything else is asked of its part.
//
// What several parts have and cannot be merged (a file or link, against anything) is a
// conflict: an error at opening, or the first or last part's is the one that is there.
//
// Immutable but for what listing remembers (union_listing.h): any number of threads.

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
  // At least one part. Throws FormatError: a conflict, naming the path and both packs; too
  // many parts (65,536); more shared directories than the limit; and what the parts throw.
  UnionTree(std::vector<UnionPart> parts, OnConflict on_conflict);

  [[nodiscard]] std::optional<Inode> inode(Ino ino) const override;
  [[nodiscard]] std::vector<Inode> inodes(std::span<const Ino> inos) const override;
  [[nodiscard]] Ino lookup(Ino parent, std::string_view name) const override;
  [[nodiscard]] std::vector<Dentry> list(Ino directory, uint64_t start,
                                         uint64_t limit) const override;
  // Also those that a conflict hides.
  [[nodiscard]] std::vector<Dentry> subdirectories(Ino directory, uint64_t start,
                                                   uint64_t limit) const override;
  [[nodiscard]] size_t shard_of(Ino ino) const override { return UnionParts::number_of(ino); }
  [[nodiscard]] std::string target(Ino ino) const override;
  [[nodiscard]] std::string name(Ino ino) const override;
  // It may be one that a conflict hides.
  [[nodiscard]] Ino file_of(uint64_t record) const override;
  // Those that a conflict hides are counted too.
  [[nodiscard]] uint64_t file_count() const override { return file_count_; }
  [[nodiscard]] uint64_t directory_count() const override { return directory_count_; }
  [[nodiscard]] uint64_t memory_bytes() const override;

 private:
  // Not one of the inodes by which another part knows a shared directory.
  [[nodiscard]] bool is_shown(Ino ino) const;

  // What a part says of `ino`, as of the one directory that it may be.
  [[nodiscard]] Inode merged(Ino ino, Inode inode) const;

  const UnionParts parts_;
  const UnionDirectories directories_;
  const UnionLookup lookup_;
  mutable ProcessLocal<UnionListing> listing_;
  uint64_t file_count_ = 0;
  uint64_t directory_count_ = 0;
};

}  // namespace ffrfs
