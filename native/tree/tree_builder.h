// From a list of entries in any order to a PickleTree.
//
// The reader of an index (pickle_index.h) adds what it finds; finish(), which alone knows
// whole paths, says what is wrong with a name or a record number.
//
// Every limit of the tables is kept here; memory is a small multiple of what was added.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tree/pickle_tree.h"

namespace ffrfs {

class TreeBuilder {
 public:
  using NameRef = uint32_t;
  using DirectoryId = uint32_t;

  static constexpr uint32_t kDepthLimit = 1024;  // directories in a path, the root not counted

  // `file` is for messages. Files must have records below `record_limit`.
  TreeBuilder(std::string file, uint64_t record_limit);

  // At most 255 bytes; may serve any number of entries. Throws FormatError at 4 GiB.
  [[nodiscard]] NameRef add_name(std::string_view name);
  [[nodiscard]] std::string_view name(NameRef ref) const;

  // 0, the root, is the first. Throws FormatError when there are too many.
  [[nodiscard]] DirectoryId add_directory();

  void place_file(DirectoryId parent, NameRef name, int64_t record);
  // Every directory but the root must be placed once, in one that was added before it.
  void place_directory(DirectoryId parent, NameRef name, DirectoryId directory);

  // Throws FormatError: bad name, bad record number, a name twice, too deep. Once only,
  // and not without a root.
  [[nodiscard]] std::unique_ptr<PickleTree> finish();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Entry {
    NameRef name = 0;
    DirectoryId parent = 0;
    uint32_t target = 0;  // record or directory
    bool is_directory = false;
  };

  // The entries of directory d are order[begin[d]] to order[begin[d + 1] - 1].
  struct Grouping {
    std::vector<uint32_t> begin;
    std::vector<uint32_t> order;
  };

  void place(const Entry& entry);
  void note(std::string fault);
  [[nodiscard]] Grouping group() const;
  void lay_out(const Grouping& grouping, PickleTree& tree) const;
  void append_entries(const Grouping& grouping, uint32_t number, PickleTree& tree,
                      std::vector<DirectoryId>& directories) const;
  [[noreturn]] void refuse(const PickleTree& tree, uint32_t slot, const std::string& reason) const;
  [[noreturn]] void refuse(const std::string& reason) const;

  std::string file_;
  uint64_t record_limit_;
  std::vector<char> names_;
  std::vector<Entry> entries_;
  uint32_t directory_count_ = 0;
  uint32_t faulty_entry_ = kNone;  // the first one
  std::string fault_;
};

}  // namespace ffrfs
