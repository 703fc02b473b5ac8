// What is to be packed: the entries of a folder as they were walked, and which record each
// file becomes.
//
//   folders, files, links   32 bytes each, numbered from 0 in the order they were added in;
//                           folder 0 is the root
//   nodes                   all of them in one row of numbers: folders, then files, links
//   children                the nodes, those of a folder side by side, sorted by the bytes of
//                           their names: made by sort(), 4 bytes each
//   records                 the file of each record: made by number_…(), 4 bytes each
//   rest                    links and empty folders, each with a record: 8 bytes each
//
// What is added after sort() or number_…() undoes them.
// Any number of threads may read; a thread that changes it must be alone.
// Not here: walking and reading folders (ffrfs/folder, record/file_packer.h), which records
// take how much of a pack (manifest_costs.h), what of the list one pack shows (manifest_slice.h).

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

class Manifest {
 public:
  using Node = uint32_t;

  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kDepthLimit = 1024;  // folders in a path, the root not counted

  struct Entry {
    uint64_t name_place : 44 = 0;
    uint64_t name_size : 8 = 0;
    uint64_t mode : 9 = 0;  // permissions
    int64_t mtime_ns = 0;
    // Of a file its size in bytes; of a folder how many entries it has; of a link where its
    // target lies, and how long that is.
    uint64_t value = 0;
    uint32_t parent = 0;  // a folder
    // Of a file its record, once it has a number; of a link the record that it goes with; of a
    // folder how deep it lies.
    uint32_t detail = 0;
  };
  static_assert(sizeof(Entry) == 32);

  Manifest();

  // Whether an entry can have that name: what the add_…() ask first.
  [[nodiscard]] static bool is_name(std::string_view name);

  // All throw std::invalid_argument for what no folder can hold (a bad name, a parent that
  // is none), PackError for what no pack can.
  uint32_t add_folder(uint32_t parent, std::string_view name, uint32_t mode, int64_t mtime_ns);
  uint32_t add_file(uint32_t parent, std::string_view name, uint64_t size, uint32_t mode,
                    int64_t mtime_ns);
  void add_link(uint32_t parent, std::string_view name, std::string_view target, int64_t mtime_ns);
  // The last one, with nothing in it.
  void drop_folder(uint32_t folder);
  void describe_folder(uint32_t folder, uint32_t mode, int64_t mtime_ns);
  // `file` shows the record of `original`, which has a record of its own.
  void share(uint32_t file, uint32_t original);
  // What is shown from now on: this time, and permissions 0755 or 0644.
  void normalize(int64_t mtime_ns) { shown_mtime_ns_ = mtime_ns; }

  [[nodiscard]] uint32_t folder_count() const { return count_of(folders_); }  // with the root
  [[nodiscard]] uint32_t file_count() const { return count_of(files_); }
  [[nodiscard]] uint32_t link_count() const { return count_of(links_); }
  [[nodiscard]] uint64_t byte_count() const { return byte_count_; }

  [[nodiscard]] const Entry& folder(uint32_t number) const { return folders_.at(number); }
  [[nodiscard]] const Entry& file(uint32_t number) const { return files_.at(number); }
  [[nodiscard]] std::string_view name(const Entry& entry) const {
    return names_.view(entry.name_place, entry.name_size);
  }
  // "a/b.png", from the root.
  [[nodiscard]] std::string path(const Entry& entry) const;

  // Throws PackError: a name twice in one folder.
  void sort();
  // The file "a/b.png". After sort().
  [[nodiscard]] std::optional<uint32_t> find(std::string_view path) const;

  // Which record each file becomes. They sort first.
  void number_by_path();                             // depth first, by the bytes of the names
  void number_by_size();                             // the smallest first, then by path
  void number_by(std::span<const uint32_t> files);   // all others follow, by path

  // After number_…().
  [[nodiscard]] bool is_numbered() const { return numbered_; }
  [[nodiscard]] uint32_t record_count() const { return static_cast<uint32_t>(records_.size()); }
  [[nodiscard]] uint32_t file_of(uint32_t record) const { return records_[record]; }

  // The files that share a record, besides its own.
  [[nodiscard]] std::vector<uint32_t> sharing(uint32_t record) const;

  // A link or an empty folder is in the pack that has its record: that of the first file which
  // follows it by path, where the links of a folder come before all else in it; of the last ones,
  // which no file follows, the last record. In the order of the records.
  struct Rest {
    uint32_t record;
    uint32_t node;
  };
  [[nodiscard]] std::span<const Rest> rest() const { return rest_; }
  [[nodiscard]] std::span<const Rest> rest(uint32_t first, uint32_t count) const;

  // For who lays them out; after sort().
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
  [[nodiscard]] Entry make(uint32_t parent, std::string_view name, uint32_t mode,
                           int64_t mtime_ns);
  void group();
  void sort_folder(std::span<Node> nodes);
  template <typename Enter, typename Visit>
  void walk(Enter enter, Visit visit) const;
  [[nodiscard]] std::vector<uint32_t> unshared_by_path() const;
  void give_records(std::vector<uint32_t> files);
  void place_rest();
  void keep(const Entry& added) {
    ++folders_[added.parent].value;
    undo();
  }
  void undo() { sorted_ = numbered_ = false; }

  NamePool names_;  // and targets
  std::deque<Entry> folders_;
  std::deque<Entry> files_;
  std::deque<Entry> links_;
  // Files that share a record, and whose.
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
