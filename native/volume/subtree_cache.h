// The parts of a tree that its records hold (tree/subtrees.h): made of a record's bytes when it
// is first looked into, kept while there is room, and made again when they are asked for again.
//
//   find()   kept? ──► tree, or nullptr
//   get()    kept ─► record at hand: made at once ─► nullptr: poll() calls `done`
//
// Any thread. Callbacks run in poll(). A record is read once however many ask; those who
// hold a tree may use it when it is kept no longer. Which are kept, or being made, is in the
// table of units.

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

// A part of a tree; those who have it may use it as long as the volume lives.
using TreePtr = std::shared_ptr<const Tree>;

class SubtreeCache {
 public:
  using Done = std::function<void(TreePtr, std::exception_ptr)>;

  SubtreeCache(const ShardSet& shards, const Subtrees& subtrees, FileReads& reads);

  // nullptr: it is not kept.
  [[nodiscard]] TreePtr find(uint64_t record);

  // nullptr: it comes through `done`. Never waits for the disk. Throws ChecksumError.
  // `record` must exist.
  [[nodiscard]] TreePtr get(uint64_t record, Done done);

  // Of the record's bytes, which were read ahead.
  [[nodiscard]] TreePtr make_of(uint64_t record, std::span<const std::byte> bytes);

 private:
  struct HeldTree;

  // A number of all records, so that no shard has to be looked up.
  [[nodiscard]] static UnitKey key_of(uint64_t record) { return {0, record, UnitKind::kSubtree}; }
  [[nodiscard]] TreePtr make(uint64_t record);
  [[nodiscard]] HeldPtr hold(const TreePtr& tree);

  const ShardSet& shards_;
  const Subtrees& subtrees_;
  FileReads& reads_;
};

}  // namespace ffrfs
