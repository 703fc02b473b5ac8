// Finds a name in a shared directory: which of its parts has it?
//
// Shards that were packed in the order of their paths have names that follow each other
// from part to part; then a binary search tells the part, and one is asked. Otherwise they
// are asked one after the other, the one that counts first.
//
// Immutable but for what it has found out of each directory: 1 byte. Any thread, no lock.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tree/tree.h"
#include "tree/union_directories.h"
#include "tree/union_part.h"

namespace ffrfs {

class UnionLookup {
 public:
  // Both must outlive this.
  UnionLookup(const UnionParts& parts, const UnionDirectories& directories);

  // 0: no part has it. `directory` must be shared. Throws what the parts throw.
  [[nodiscard]] Ino find(Ino directory, std::string_view name) const;

  [[nodiscard]] uint64_t memory_bytes() const { return sizeof *this + directories_.count(); }

 private:
  enum class Order : uint8_t { kUnknown, kByPart, kMixed };

  [[nodiscard]] bool is_by_part(size_t number) const;
  // Every name of a part is behind all names of the part before it; a folder in which one
  // part ended may be the one in which the next began.
  [[nodiscard]] bool follow_each_other(std::span<const Ino> directories) const;
  [[nodiscard]] Ino find_by_part(std::span<const Ino> directories, std::string_view name) const;
  [[nodiscard]] Ino find_in_turn(std::span<const Ino> directories, std::string_view name) const;

  const UnionParts& parts_;
  const UnionDirectories& directories_;
  const std::unique_ptr<std::atomic<Order>[]> orders_;  // by the directory's number
};

}  // namespace ffrfs
