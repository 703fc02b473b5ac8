// A tree in compact tables: 12 bytes for an inode, its name, and 16 more for a directory.
//
//   nodes        slot 0 is the top, then breadth-first: the entries of a directory are
//                adjacent, sorted by the bytes of their names; ino = top's + slot
//   directories  in the order of their slots: which slots their entries have
//   names        all names in one array, each after a byte that holds its size
//
// Derived classes fill the tables, and know what the files are; the tables are immutable from then
// on.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tree/index_entries.h"
#include "tree/tree.h"

namespace ffrfs {

class MemoryTree : public Tree {
 public:
  [[nodiscard]] std::optional<Inode> inode(Ino ino) const override;
  [[nodiscard]] Ino lookup(Ino parent, std::string_view name) const override;
  [[nodiscard]] std::vector<Dentry> list(Ino directory, uint64_t start,
                                         uint64_t limit) const override;
  [[nodiscard]] std::vector<Dentry> subdirectories(Ino directory, uint64_t start,
                                                   uint64_t limit) const override;
  [[nodiscard]] std::string name(Ino ino) const override;
  [[nodiscard]] uint64_t directory_count() const override { return directories_.size(); }

 protected:
  struct Node {
    uint32_t name = 0;         // where it begins in names_
    uint32_t target = 0;       // index in directories_; for a file, defined by the subclass
    uint32_t parent : 31 = 0;  // index in directories_
    uint32_t is_directory : 1 = 0;
  };
  static_assert(sizeof(Node) == 12);

  using Directory = SourceDirectory;

  // `top`: the inode of slot 0, whose parent is `top_parent`.
  MemoryTree(Ino top, Ino top_parent) : top_(top), top_parent_(top_parent) {}

  // Fills in the fields of a file's inode.
  virtual void describe_file(const Node& node, Inode& inode) const = 0;

  // Append to the tables, whose directories are filled in their order: begin_entries(), then
  // add_entry() for each of its entries. A new directory is the last of the table.
  void begin_entries(uint32_t number) {
    directories_[number].first = static_cast<uint32_t>(nodes_.size());
  }
  void add_entry(uint32_t number, Node node);

  [[nodiscard]] Ino ino_of(uint32_t slot) const { return top_ + slot; }
  [[nodiscard]] const Node* node(Ino ino) const;            // or nullptr
  [[nodiscard]] const Directory* directory(Ino ino) const;  // or nullptr
  [[nodiscard]] std::string_view name_of(const Node& node) const;
  [[nodiscard]] uint64_t table_bytes() const;

  std::vector<char> names_;
  std::vector<Node> nodes_;
  std::vector<Directory> directories_;

 private:
  const Ino top_;
  const Ino top_parent_;
};

}  // namespace ffrfs
