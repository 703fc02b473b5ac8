// Builds a PickleTree from a list of entries in any order.
//
// The reader of an index (pickle_index.h) adds the entries; finish() reports bad names and record
// numbers, because only then the whole paths are known.
//
// Enforces all limits of the tables; memory is a small multiple of the entries' size.

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

  static constexpr uint32_t kDepthLimit = 1024;  // directories in a path, not counting the root

  // `file` is for messages. Files must have records below `record_limit`.
  TreeBuilder(std::string file, uint64_t record_limit);

  // Adds at most 255 bytes; any number of entries may use the name. Throws FormatError at 4 GiB.
  [[nodiscard]] NameRef add_name(std::string_view name);
  [[nodiscard]] std::string_view name(NameRef ref) const;

  // The first directory is the root, 0. Throws FormatError if there are too many.
  [[nodiscard]] DirectoryId add_directory();

  void place_file(DirectoryId parent, NameRef name, int64_t record);
  // Every directory but the root must be placed once, in one that was added before it.
  void place_directory(DirectoryId parent, NameRef name, DirectoryId directory);

  // Throws FormatError: bad name, bad record number, duplicate name, too deep. May be called once,
  // and only with a root.
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
  uint32_t faulty_entry_ = kNone;  // the first faulty entry
  std::string fault_;
};

}  // namespace ffrfs
