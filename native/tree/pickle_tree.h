// A tree from the pickled index of a pack: the tables of MemoryTree, and 4 bytes more for
// each file.
//
//   nodes        a file's target is its record
//   files        the files' slots in the order of their records
//
// Built by TreeBuilder (tree_builder.h); immutable from then on.

#pragma once

#include <memory>

#include "tree/memory_tree.h"

namespace ffrfs {

class PickleTree final : public MemoryTree {
 public:
  // If a record has several names, returns the one with the lowest slot.
  [[nodiscard]] Ino file_of(uint64_t record) const override;
  [[nodiscard]] uint64_t file_count() const override { return files_.size(); }
  [[nodiscard]] uint64_t memory_bytes() const override;

 private:
  friend class PickleTreeEntries;
  friend class TreeBuilder;

  PickleTree() : MemoryTree(kRootIno, kRootIno) {}

  void describe_file(const Node& node, Inode& inode) const override { inode.record = node.target; }
  void index_files();  // fills files_

  std::vector<uint32_t> files_;
};

}  // namespace ffrfs
