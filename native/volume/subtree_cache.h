// Trees of directories that are inside records (tree/subtrees.h): made from a record's bytes when
// the directory is first used, kept while there is room, and made again if needed.
//
//   find()   kept? ──► tree, or nullptr
//   get()    kept ─► record at hand: made at once ─► nullptr: poll() calls `done`
//
// Thread-safe. Callbacks run in poll(). Concurrent calls share one read of a record; a tree may be
// used after it was dropped from the cache. The table of units knows which trees are kept, or being
// made.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>

#include "fetch/unit.h"
#include "fetch/unit_table.h"
#include "shard/shard_set.h"
#include "tree/subtrees.h"
#include "tree/tree.h"
#include "volume/file_reads.h"

namespace ffrfs {

// A part of the tree; its holders may use it as long as the volume lives.
using TreePtr = std::shared_ptr<const Tree>;

class SubtreeCache {
 public:
  using Done = std::function<void(TreePtr, std::exception_ptr)>;

  SubtreeCache(const ShardSet& shards, const Subtrees& subtrees, FileReads& reads);

  // Returns nullptr if the tree is not kept.
  [[nodiscard]] TreePtr find(uint64_t record);

  // Returns nullptr if the tree will come through `done`. Never waits for the disk. Throws
  // ChecksumError. `record` must exist.
  [[nodiscard]] TreePtr get(uint64_t record, Done done);

  // Makes the tree from the record's bytes, which were read ahead.
  [[nodiscard]] TreePtr make_of(uint64_t record, std::span<const std::byte> bytes);

 private:
  struct HeldTree;

  // Uses the number among all records, so that no shard has to be looked up.
  [[nodiscard]] static UnitKey key_of(uint64_t record) { return {0, record, UnitKind::kSubtree}; }
  [[nodiscard]] TreePtr make(uint64_t record);
  [[nodiscard]] HeldPtr hold(const TreePtr& tree);

  const ShardSet& shards_;
  const Subtrees& subtrees_;
  FileReads& reads_;
};

}  // namespace ffrfs
