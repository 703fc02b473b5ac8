// A tree from a packed folder's index: the tables of MemoryTree, and 4 bytes more for each
// file.
//
//   nodes        a file's target is its record
//   files        the files' slots in the order of their records
//
// Made by TreeBuilder (tree_builder.h); immutable from then on.

#pragma once

#include <memory>

#include "tree/memory_tree.h"

namespace ffrfs {

class PickleTree final : public MemoryTree {
 public:
  // A record may have several names: the one of the lowest slot.
  [[nodiscard]] Ino file_of(uint64_t record) const override;
  [[nodiscard]] uint64_t file_count() const override { return files_.size(); }
  [[nodiscard]] uint64_t memory_bytes() const override;

 private:
  friend class PickleTreeEntries;
  friend class TreeBuilder;

  PickleTree() : MemoryTree(kRootIno, kRootIno) {}

  void describe_file(const Node& node, Inode& inode) const override { inode.record = node.target; }
  void index_files();  // makes files_

  std::vector<uint32_t> files_;
};

}  // namespace ffrfs
