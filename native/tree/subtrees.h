// A tree of which each record holds a part: a directory whose names come out of the record's
// bytes. The tree itself has the directory, and nothing that is in it.
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

  // The record whose directory `ino` is, or is in. nullopt: the tree knows all about it.
  [[nodiscard]] virtual std::optional<uint64_t> record_of(Ino ino) const = 0;
  // That directory. `record` must exist.
  [[nodiscard]] virtual Ino top(uint64_t record) const = 0;

  // The part that a record holds; the same inodes whenever it is made of the same bytes. It
  // does not refer to `bytes`, nor to this.
  [[nodiscard]] virtual std::unique_ptr<const Tree> make(uint64_t record,
                                                         std::span<const std::byte> bytes) const = 0;
  // The same of a record that is not looked into.
  [[nodiscard]] virtual std::unique_ptr<const Tree> make_opaque(uint64_t record,
                                                                uint64_t size) const = 0;
};

}  // namespace ffrfs
