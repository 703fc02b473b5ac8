// One or several TFRecord files as a tree: the root, with a directory for each record, named as
// FlatTree names its file. With groups: the root with a directory for each group, which has the
// directories of its records, numbered from 0. Records are computed; the groups are the only table.
//
//   ino = (record + 1) << 24    of a record's directory; its content follows: + 1, + 2 …
//   ino = 2 + group             of a group's directory
//
// The content of a record's directory is in its ExampleFolder (example_folder.h), which needs the
// record's bytes; in this tree such a directory has no entries.

#pragma once

#include <deque>
#include <span>
#include <string>

#include "example/example_folder.h"
#include "tree/flat_tree.h"
#include "tree/subtrees.h"
#include "tree/tree.h"

namespace ffrfs {

// Consecutive records.
struct ExampleGroup {
  std::string name;
  uint64_t record_count = 0;
};

class ExampleTree final : public Tree, public Subtrees {
 public:
  // Throws FormatError if there are more records than inode numbers (2^40).
  explicit ExampleTree(uint64_t record_count, const ExampleOptions& options = {});
  // `groups`: at most 2^24 - 2, in the order of their records, which must be the byte order of
  // their names. Throws FormatError, also if they are not in order, or for a name that no directory
  // can have.
  explicit ExampleTree(std::span<const ExampleGroup> groups, const ExampleOptions& options = {});

  [[nodiscard]] static constexpr Ino folder_ino(uint64_t record) {
    return (record + 1) << kInoBits;
  }

  [[nodiscard]] std::optional<Inode> inode(Ino ino) const override;
  [[nodiscard]] Ino lookup(Ino parent, std::string_view name) const override;
  [[nodiscard]] std::vector<Dentry> list(Ino directory, uint64_t start,
                                         uint64_t limit) const override;
  [[nodiscard]] std::vector<Dentry> subdirectories(Ino directory, uint64_t start,
                                                   uint64_t limit) const override {
    return list(directory, start, limit);  // it has only directories
  }
  [[nodiscard]] std::string name(Ino ino) const override;
  // Returns the record's directory.
  [[nodiscard]] Ino file_of(uint64_t record) const override;
  // Both count only inodes that are known without the records' bytes.
  [[nodiscard]] uint64_t file_count() const override { return 0; }
  [[nodiscard]] uint64_t directory_count() const override {
    return record_count_ + 1 + (is_grouped_ ? groups_.size() : 0);
  }

  [[nodiscard]] const Subtrees* subtrees() const override { return this; }
  [[nodiscard]] std::optional<uint64_t> record_of(Ino ino) const override {
    if (ino >> kInoBits == 0 || ino >> kInoBits > record_count_) return std::nullopt;
    return (ino >> kInoBits) - 1;
  }
  [[nodiscard]] Ino top(uint64_t record) const override { return folder_ino(record); }
  [[nodiscard]] std::unique_ptr<const Tree> make(uint64_t record,
                                                 std::span<const std::byte> bytes) const override;
  [[nodiscard]] std::unique_ptr<const Tree> make_opaque(uint64_t record,
                                                        uint64_t size) const override;

 private:
  static constexpr int kInoBits = 24;
  static constexpr Ino kFirstGroupIno = kRootIno + 1;

  // A directory of records: a group's, or the root if there are no groups.
  struct Group {
    Group(std::string given, Ino own, uint64_t first, uint64_t count)
        : name(std::move(given)), ino(own), first_record(first), records(count) {}

    std::string name;
    Ino ino;
    uint64_t first_record;
    FlatTree records;  // their names
  };

  [[nodiscard]] bool is_folder(Ino ino) const;
  [[nodiscard]] const Group* group_at(Ino ino) const;  // or nullptr
  [[nodiscard]] const Group& group_of(uint64_t record) const;
  [[nodiscard]] ExamplePlace place(uint64_t record) const;
  // Returns the record's directory for the inode of its file in `group.records`; 0 for 0.
  [[nodiscard]] static Ino folder_of(const Group& group, Ino file);

  const bool is_grouped_;
  uint64_t record_count_ = 0;
  std::deque<Group> groups_;  // in the order of their records
  const ExampleOptions options_;
};

}  // namespace ffrfs
