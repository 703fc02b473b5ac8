// A TFRecord file, or several, as a tree: the root, with a folder for each record that is
// named as FlatTree names its file. Everything is computed, no tables.
//
//   ino = (record + 1) << 24    of the folder; what is in it follows: + 1, + 2 …
//
// Its ExampleFolder (example_folder.h) says what is in a record's folder, which
// needs the record's bytes; here such a folder has no entries.

#pragma once

#include "example/example_folder.h"
#include "tree/flat_tree.h"
#include "tree/subtrees.h"
#include "tree/tree.h"

namespace ffrfs {

class ExampleTree final : public Tree, public Subtrees {
 public:
  // Throws FormatError: more records than there are inode numbers (2^40).
  explicit ExampleTree(uint64_t record_count, const ExampleOptions& options = {});

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
  // Those that are known without a record's bytes.
  [[nodiscard]] uint64_t file_count() const override { return 0; }
  [[nodiscard]] uint64_t directory_count() const override { return records_.file_count() + 1; }
  [[nodiscard]] uint64_t memory_bytes() const override { return sizeof *this; }

  [[nodiscard]] const Subtrees* subtrees() const override { return this; }
  [[nodiscard]] std::optional<uint64_t> record_of(Ino ino) const override {
    if (ino >> kInoBits == 0 || ino >> kInoBits > record_count()) return std::nullopt;
    return (ino >> kInoBits) - 1;
  }
  [[nodiscard]] Ino top(uint64_t record) const override { return folder_ino(record); }
  [[nodiscard]] std::unique_ptr<const Tree> make(uint64_t record,
                                                 std::span<const std::byte> bytes) const override;
  [[nodiscard]] std::unique_ptr<const Tree> make_opaque(uint64_t record,
                                                        uint64_t size) const override;

 private:
  static constexpr int kInoBits = 24;

  [[nodiscard]] uint64_t record_count() const { return records_.file_count(); }
  [[nodiscard]] bool is_folder(Ino ino) const;
  // From the inode of the record's file in `records_`; 0 stays 0.
  [[nodiscard]] Ino folder_of(Ino file) const;

  const FlatTree records_;  // the names
  const ExampleOptions options_;
};

}  // namespace ffrfs
