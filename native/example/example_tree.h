// A TFRecord file, or several, as a tree: the root, with a folder for each record that is
// named as FlatTree names its file. Everything is computed, no tables.
//
//   ino = (record + 1) << 24    of the folder; what is in it follows: + 1, + 2 …
//
// Its ExampleFolder (example_folder.h) says what is in a record's folder, which
// needs the record's bytes; here such a folder has no entries.

#pragma once

#include "tree/flat_tree.h"
#include "tree/tree.h"

namespace ffrfs {

class ExampleTree final : public Tree {
 public:
  // Throws FormatError: more records than there are inode numbers (2^40).
  explicit ExampleTree(uint64_t record_count);

  // Of the numbers that a tree of any count may have. The record's folder is inside too.
  [[nodiscard]] static constexpr bool is_inside(Ino ino) { return ino >> kInoBits != 0; }
  [[nodiscard]] static constexpr uint64_t record_of(Ino inside) {
    return (inside >> kInoBits) - 1;
  }
  [[nodiscard]] static constexpr Ino folder_ino(uint64_t record) {
    return (record + 1) << kInoBits;
  }

  [[nodiscard]] std::optional<Inode> inode(Ino ino) const override;
  [[nodiscard]] Ino lookup(Ino parent, std::string_view name) const override;
  [[nodiscard]] std::vector<Dentry> list(Ino directory, uint64_t start,
                                         uint64_t limit) const override;
  [[nodiscard]] std::vector<Dentry> subdirectories(Ino directory, uint64_t start,
                                                   uint64_t limit) const override {
    return list(directory, start, limit);  // nothing else is in it
  }
  [[nodiscard]] std::string name(Ino ino) const override;
  // The record's folder.
  [[nodiscard]] Ino file_of(uint64_t record) const override;
  [[nodiscard]] uint64_t record_count() const { return records_.file_count(); }
  // Those that are known without a record's bytes.
  [[nodiscard]] uint64_t file_count() const override { return 0; }
  [[nodiscard]] uint64_t directory_count() const override { return records_.file_count() + 1; }
  [[nodiscard]] uint64_t memory_bytes() const override { return sizeof *this; }

 private:
  static constexpr int kInoBits = 24;

  [[nodiscard]] bool is_folder(Ino ino) const;
  // From the inode of the record's file in `records_`; 0 stays 0.
  [[nodiscard]] Ino folder_of(Ino file) const;

  const FlatTree records_;  // the names
};

}  // namespace ffrfs
