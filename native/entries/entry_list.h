// The list of entries to pack, as they were found in a folder, and the record number of each file.
//
//   folders, files, links   32 bytes each, numbered from 0 in the order they were added in;
//                           folder 0 is the root
//   nodes                   all entries, numbered together: folders, then files, then links
//   children                the nodes, 4 bytes each; the entries of a folder are adjacent and
//                           sorted by the bytes of their names; made by sort()
//   records                 the file of each record, 4 bytes each; made by number_…()
//   rest                    links and empty folders, each with a record: 8 bytes each
//
// Adding an entry undoes sort() and number_…(). Any number of threads may read; a thread that
// changes the list must be alone.
// Not here: walking and reading folders (ffrfs/folder, record/file_packer.h), the size of records
// in a pack (record_costs.h), the part of the list that is in one pack (entry_slice.h).

#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tree/name_pool.h"

namespace ffrfs {

class EntryList {
 public:
  using Node = uint32_t;

  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kDepthLimit = 1024;  // folders in a path, not counting the root

  struct Entry {
    uint64_t name_place : 44 = 0;
    uint64_t name_size : 8 = 0;
    uint64_t mode : 9 = 0;  // permissions
    int64_t mtime_ns = 0;
    // A file's size in bytes; a folder's number of entries; the position and size of a link's
    // target.
    uint64_t value = 0;
    uint32_t parent = 0;  // a folder
    // A file's record, once it has one; the record that a link goes with; a folder's depth.
    uint32_t detail = 0;
  };
  static_assert(sizeof(Entry) == 32);

  EntryList();

  // Returns whether an entry may have that name; the add_…() functions check this first.
  [[nodiscard]] static bool is_name(std::string_view name);

  // All throw std::invalid_argument for an entry that no folder can hold (a bad name, a parent that
  // does not exist), PackError for one that no pack can hold.
  uint32_t add_folder(uint32_t parent, std::string_view name, uint32_t mode, int64_t mtime_ns);
  uint32_t add_file(uint32_t parent, std::string_view name, uint64_t size, uint32_t mode,
                    int64_t mtime_ns);
  void add_link(uint32_t parent, std::string_view name, std::string_view target, int64_t mtime_ns);
  // Drops the folder, which must be empty and the last one.
  void drop_folder(uint32_t folder);
  void describe_folder(uint32_t folder, uint32_t mode, int64_t mtime_ns);
  // Makes `file` share the record of `original`, which must have a record of its own.
  void share(uint32_t file, uint32_t original);
  // From now on all entries have this time, and permissions 0755 or 0644.
  void normalize(int64_t mtime_ns) { shown_mtime_ns_ = mtime_ns; }

  [[nodiscard]] uint32_t folder_count() const { return count_of(folders_); }  // includes the root
  [[nodiscard]] uint32_t file_count() const { return count_of(files_); }
  [[nodiscard]] uint32_t link_count() const { return count_of(links_); }
  [[nodiscard]] uint64_t byte_count() const { return byte_count_; }

  [[nodiscard]] const Entry& folder(uint32_t number) const { return folders_.at(number); }
  [[nodiscard]] const Entry& file(uint32_t number) const { return files_.at(number); }
  [[nodiscard]] std::string_view name(const Entry& entry) const {
    return names_.view(entry.name_place, entry.name_size);
  }
  // Returns e.g. "a/b.png", from the root.
  [[nodiscard]] std::string path(const Entry& entry) const;

  // Throws PackError if a folder has a name twice.
  void sort();
  // Returns the file at e.g. "a/b.png". Needs sort().
  [[nodiscard]] std::optional<uint32_t> find(std::string_view path) const;

  // Assign records to files, after sorting.
  void number_by_path();  // depth first, by the bytes of the names
  void number_by_size();  // smallest first, then by path
  void number_by(std::span<const uint32_t> files);  // these first, all others after them, by path

  // Needs number_…().
  [[nodiscard]] bool is_numbered() const { return numbered_; }
  [[nodiscard]] uint32_t record_count() const { return static_cast<uint32_t>(records_.size()); }
  [[nodiscard]] uint32_t file_of(uint32_t record) const { return records_[record]; }

  // Returns the files that share a record, except for its own.
  [[nodiscard]] std::vector<uint32_t> sharing(uint32_t record) const;

  // Links and empty folders, in the order of their records. The record of one is that of the first
  // file after it by path (the links of a folder come before its other entries), or the last record
  // if no file comes after it. The pack that has this record has the link or folder, too.
  struct Rest {
    uint32_t record;
    uint32_t node;
  };
  [[nodiscard]] std::span<const Rest> rest() const { return rest_; }
  [[nodiscard]] std::span<const Rest> rest(uint32_t first, uint32_t count) const;

  // For code that lays out a pack; needs sort().
  [[nodiscard]] std::span<const Node> children(uint32_t folder) const;
  [[nodiscard]] const Entry& entry(Node node) const;
  [[nodiscard]] bool is_folder(Node node) const { return node < folder_count(); }
  [[nodiscard]] bool is_file(Node node) const { return !is_folder(node) && node < first_link(); }
  [[nodiscard]] uint32_t file_number(Node node) const { return node - folder_count(); }
  [[nodiscard]] Node first_link() const { return folder_count() + file_count(); }
  [[nodiscard]] Node node_count() const { return first_link() + link_count(); }
  [[nodiscard]] std::string_view target(const Entry& link) const;
  [[nodiscard]] uint16_t shown_mode(const Entry& entry, bool is_folder) const;
  [[nodiscard]] int64_t shown_mtime_ns(const Entry& entry) const {
    return shown_mtime_ns_.value_or(entry.mtime_ns);
  }

 private:
  [[nodiscard]] static uint32_t count_of(const std::deque<Entry>& entries) {
    return static_cast<uint32_t>(entries.size());
  }
  [[nodiscard]] Entry make(uint32_t parent, std::string_view name, uint32_t mode, int64_t mtime_ns);
  void group();
  void sort_folder(std::span<Node> nodes);
  template <typename Enter, typename Visit> void walk(Enter enter, Visit visit) const;
  [[nodiscard]] std::vector<uint32_t> unshared_by_path() const;
  void give_records(std::vector<uint32_t> files);
  void place_rest();
  void keep(const Entry& added) {
    ++folders_[added.parent].value;
    undo();
  }
  void undo() { sorted_ = numbered_ = false; }

  NamePool names_;  // and link targets
  std::deque<Entry> folders_;
  std::deque<Entry> files_;
  std::deque<Entry> links_;
  // Files that share a record, and the files whose record it is.
  std::vector<std::pair<uint32_t, uint32_t>> shared_;
  uint64_t byte_count_ = 0;
  std::optional<int64_t> shown_mtime_ns_;

  bool sorted_ = false;
  bool numbered_ = false;
  std::vector<uint32_t> children_begin_;  // of each folder, in children_, and the end
  std::vector<Node> children_;
  std::vector<uint32_t> records_;
  std::vector<Rest> rest_;
};

}  // namespace ffrfs
