// A plain FFRecord file as a tree: one file per record in a flat root, named by its number.
// Everything is computed without tables: a billion records take no memory.
//
//   ino = record + 2      name = number, padded with zeros to 9 digits
//                         (to more where the last number needs more)

#pragma once

#include <cstddef>

#include "tree/tree.h"

namespace ffrfs {

class FlatTree final : public Tree {
 public:
  explicit FlatTree(uint64_t record_count);

  [[nodiscard]] std::optional<Inode> inode(Ino ino) const override;
  // Finds only the canonical name: not "7" or "0000000007".
  [[nodiscard]] Ino lookup(Ino parent, std::string_view name) const override;
  [[nodiscard]] std::vector<Dentry> list(Ino directory, uint64_t start,
                                         uint64_t limit) const override;
  [[nodiscard]] std::vector<Dentry> subdirectories(Ino, uint64_t, uint64_t) const override {
    return {};
  }
  [[nodiscard]] std::string name(Ino ino) const override;
  [[nodiscard]] Ino file_of(uint64_t record) const override;
  [[nodiscard]] uint64_t file_count() const override { return count_; }
  [[nodiscard]] uint64_t directory_count() const override { return 1; }

 private:
  static constexpr Ino kFirstIno = kRootIno + 1;

  [[nodiscard]] bool is_file(Ino ino) const { return ino >= kFirstIno && ino - kFirstIno < count_; }
  [[nodiscard]] std::string name_of(uint64_t record) const;

  const uint64_t count_;
  const size_t digits_;  // the same for all names, so that byte order is numeric order
};

}  // namespace ffrfs
