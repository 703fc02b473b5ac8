// A PickleTree, parsed from a pickle, as the source of a new index: without modes and times, which
// are not known.

#pragma once

#include "tree/index_entries.h"
#include "tree/pickle_tree.h"

namespace ffrfs {

class PickleTreeEntries final : public IndexEntries {
 public:
  explicit PickleTreeEntries(const PickleTree& tree) : tree_(tree) {}

  [[nodiscard]] uint32_t slot_count() const override {
    return static_cast<uint32_t>(tree_.nodes_.size());
  }

  [[nodiscard]] IndexEntry entry(uint32_t slot) const override {
    const PickleTree::Node& node = tree_.nodes_[slot];
    IndexEntry entry{.kind = InodeKind::kDirectory,
                     .name = tree_.name_of(node),
                     .parent = tree_.directories_[node.parent].slot};
    if (!node.is_directory) {
      entry.kind = InodeKind::kFile;
      entry.record = node.target;
    }
    return entry;
  }

  [[nodiscard]] uint32_t directory_count() const override {
    return static_cast<uint32_t>(tree_.directories_.size());
  }

  [[nodiscard]] SourceDirectory directory(uint32_t number) const override {
    return tree_.directories_[number];
  }

 private:
  const PickleTree& tree_;
};

}  // namespace ffrfs
