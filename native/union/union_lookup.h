// Finds a name in a shared directory: which of its parts has it?
//
// Shards that were packed in the order of their paths have names that follow each other
// from part to part; then a binary search over the first name of each tells the part, and
// one is asked. Otherwise they are asked one after the other, the one that counts first.
//
// Immutable but for what it has found out of each directory that was asked for: 8 bytes of
// every shared one, and the first names, up to a limit; beyond it the parts are asked one
// after the other, too. Any thread; no lock but when something is found out.

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
  // Both must outlive this.
  UnionLookup(const UnionParts& parts, const UnionDirectories& directories);

  // 0: no part has it. `directory` must be shared. Throws what the parts throw.
  [[nodiscard]] Ino find(Ino directory, std::string_view name) const;

  [[nodiscard]] uint64_t memory_bytes() const;

 private:
  static constexpr uint64_t kNamesLimitBytes = uint64_t{16} << 20;

  // Of each of a directory's parts; empty: there is no order to go by.
  using FirstNames = std::vector<std::string>;

  [[nodiscard]] Ino find_in_parts(size_t number, std::string_view name) const;
  [[nodiscard]] const FirstNames& first_names(size_t number) const;
  // If every name of a part is behind all names of the part before it; a folder in which one
  // part ended may be the one in which the next began.
  [[nodiscard]] FirstNames find_first_names(std::span<const Ino> directories) const;
  [[nodiscard]] Ino find_in_turn(std::span<const Ino> directories, std::string_view name) const;

  const UnionParts& parts_;
  const UnionDirectories& directories_;
  // By the directory's number; nullptr: not found out yet.
  const std::unique_ptr<std::atomic<const FirstNames*>[]> known_;
  mutable std::mutex mutex_;  // guards all below
  mutable std::deque<FirstNames> kept_;
  mutable uint64_t kept_bytes_ = 0;
};

}  // namespace ffrfs
