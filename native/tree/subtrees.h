// The parts of a tree that are inside records: a directory each, whose names come from the record's
// bytes. The tree itself has that directory, but none of its entries.
//
// Not here: which of these parts are kept (volume/subtree_cache.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "tree/tree.h"

namespace ffrfs {

class Subtrees {
 public:
  virtual ~Subtrees() = default;

  // Returns the record whose directory `ino` is, or is in; nullopt if the tree has all of `ino`.
  [[nodiscard]] virtual std::optional<uint64_t> record_of(Ino ino) const = 0;
  // Returns the inode of the record's directory. `record` must exist.
  [[nodiscard]] virtual Ino top(uint64_t record) const = 0;

  // Makes the part that is inside a record. The same bytes always give the same inodes. The result
  // does not refer to `bytes`, nor to this object.
  [[nodiscard]] virtual std::unique_ptr<const Tree> make(
      uint64_t record, std::span<const std::byte> bytes) const = 0;
  // The same for a record that is not read.
  [[nodiscard]] virtual std::unique_ptr<const Tree> make_opaque(uint64_t record,
                                                                uint64_t size) const = 0;
};

}  // namespace ffrfs
