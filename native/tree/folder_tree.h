// A tree from a packed folder's index, in compact tables: 12 bytes for an inode, 4
// more for a file, its name, and 16 more for a directory.
//
//   nodes        slot 0 is the root, then breadth-first: the entries of a directory
//                stand side by side, sorted by the bytes of their names; ino = slot + 1
//   directories  in the order of their slots: which slots their entries take
//   names        all names in one piece, each behind a byte that holds its size
//   files        the files' slots in the order of their records
//
// Made by TreeBuilder (tree_builder.h); immutable from then on.

#pragma once

#include <memory>

#include "tree/tree.h"

namespace ffrfs {

class FolderTree final : public Tree {
 public:
  [[nodiscard]] std::optional<Inode> inode(Ino ino) const override;
  [[nodiscard]] Ino lookup(Ino parent, std::string_view name) const override;
  [[nodiscard]] std::vector<Dentry> list(Ino directory, uint64_t start,
                                         uint64_t limit) const override;
  [[nodiscard]] std::string name(Ino ino) const override;
  // A record may have several names: the one of the lowest slot.
  [[nodiscard]] Ino file_of(uint64_t record) const override;
  [[nodiscard]] uint64_t file_count() const override { return files_.size(); }
  [[nodiscard]] uint64_t directory_count() const override { return directories_.size(); }
  [[nodiscard]] uint64_t memory_bytes() const override;

 private:
  friend class TreeBuilder;

  struct Node {
    uint32_t name = 0;         // where it begins in names_
    uint32_t target = 0;       // a file's record; a directory's place in directories_
    uint32_t parent : 31 = 0;  // place in directories_
    uint32_t is_directory : 1 = 0;
  };
  static_assert(sizeof(Node) == 12);

  struct Directory {
    uint32_t slot = 0;  // its own
    uint32_t first = 0;
    uint32_t entry_count = 0;
    uint32_t subdirectory_count = 0;
  };

  FolderTree() = default;

  static Ino ino_of(uint32_t slot) { return Ino{slot} + kRootIno; }

  [[nodiscard]] const Node* node(Ino ino) const;            // or nullptr
  [[nodiscard]] const Directory* directory(Ino ino) const;  // or nullptr
  [[nodiscard]] std::string_view name_of(const Node& node) const;
  void index_files();  // makes files_

  std::vector<char> names_;
  std::vector<Node> nodes_;
  std::vector<Directory> directories_;
  std::vector<uint32_t> files_;
};

}  // namespace ffrfs
