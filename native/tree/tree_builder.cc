#include "tree/tree_builder.h"

#include <algorithm>
#include <utility>

#include "io/error.h"
#include "tree/name.h"

namespace ffrfs {
namespace {

constexpr uint32_t kDirectoryLimit = uint32_t{1} << 31;  // PickleTree's nodes have 31 bits
constexpr uint64_t kRecordLimit = uint64_t{1} << 32;

}  // namespace

TreeBuilder::TreeBuilder(std::string file, uint64_t record_limit)
    : file_(std::move(file)), record_limit_(std::min(record_limit, kRecordLimit)) {
  names_.push_back('\0');  // a name of 0 is the root's, which is empty
}

TreeBuilder::NameRef TreeBuilder::add_name(std::string_view name) {
  const size_t begin = names_.size();
  if (begin + 1 + name.size() > UINT32_MAX) refuse("its names take more than 4 GiB");
  names_.push_back(static_cast<char>(name.size()));
  names_.insert(names_.end(), name.begin(), name.end());
  return static_cast<NameRef>(begin);
}

std::string_view TreeBuilder::name(NameRef ref) const {
  return {names_.data() + ref + 1, static_cast<unsigned char>(names_[ref])};
}

TreeBuilder::DirectoryId TreeBuilder::add_directory() {
  if (directory_count_ == kDirectoryLimit) refuse("more than 2147483648 directories");
  return directory_count_++;
}

void TreeBuilder::place_file(DirectoryId parent, NameRef name, int64_t record) {
  const auto number = static_cast<uint64_t>(record);  // negative numbers become huge
  place({name, parent, static_cast<uint32_t>(number), false});
  if (number >= record_limit_) {
    note("record number " + std::to_string(record) + " is out of range: the file has " +
         std::to_string(record_limit_) + " records besides its index");
  }
}

void TreeBuilder::place_directory(DirectoryId parent, NameRef name, DirectoryId directory) {
  place({name, parent, directory, true});
}

void TreeBuilder::place(const Entry& entry) {
  // The root has one slot, and kNone is not an entry.
  if (entries_.size() >= UINT32_MAX - 1) refuse("more than 4294967294 files and directories");
  entries_.push_back(entry);
  if (const char* fault = name_fault(name(entry.name))) note(fault);
}

void TreeBuilder::note(std::string fault) {
  if (faulty_entry_ != kNone) return;
  faulty_entry_ = static_cast<uint32_t>(entries_.size() - 1);
  fault_ = std::move(fault);
}

std::unique_ptr<PickleTree> TreeBuilder::finish() {
  std::unique_ptr<PickleTree> tree(new PickleTree);
  tree->nodes_.reserve(entries_.size() + 1);
  tree->directories_.reserve(directory_count_);
  const Grouping grouping = group();
  tree->names_ = std::move(names_);
  lay_out(grouping, *tree);
  entries_ = {};
  tree->names_.shrink_to_fit();
  tree->index_files();
  return tree;
}

TreeBuilder::Grouping TreeBuilder::group() const {
  Grouping grouping;
  grouping.begin.resize(size_t{directory_count_} + 1);
  grouping.order.resize(entries_.size());
  // A counting sort: sizes, then ends; filling from the back turns ends into begins.
  for (const Entry& entry : entries_) ++grouping.begin[entry.parent];
  uint32_t end = 0;
  for (uint32_t& begin : grouping.begin) begin = end += begin;
  for (size_t i = entries_.size(); i-- > 0;) {
    grouping.order[--grouping.begin[entries_[i].parent]] = static_cast<uint32_t>(i);
  }
  const auto by_name = [this](uint32_t a, uint32_t b) {
    return name(entries_[a].name) < name(entries_[b].name);
  };
  for (size_t d = 0; d < directory_count_; ++d) {
    const auto first = grouping.order.begin() + grouping.begin[d];
    const auto last = grouping.order.begin() + grouping.begin[d + 1];
    // Writers sort the entries, but not always by bytes.
    if (!std::is_sorted(first, last, by_name)) std::sort(first, last, by_name);
  }
  return grouping;
}

void TreeBuilder::lay_out(const Grouping& grouping, PickleTree& tree) const {
  tree.nodes_.push_back({.is_directory = 1});
  tree.directories_.push_back({});
  std::vector<DirectoryId> directories{0};  // breadth-first, as in tree.directories_
  directories.reserve(directory_count_);
  uint32_t depth = 0;
  size_t depth_end = 1;  // where the directories of the next depth begin
  for (uint32_t number = 0; number < directories.size(); ++number) {
    if (number == depth_end) {
      if (++depth > kDepthLimit) {
        refuse(tree, tree.directories_[number].slot,
               "more than " + std::to_string(kDepthLimit) + " directories deep");
      }
      depth_end = directories.size();
    }
    append_entries(grouping, number, tree, directories);
  }
}

void TreeBuilder::append_entries(const Grouping& grouping, uint32_t number, PickleTree& tree,
                                 std::vector<DirectoryId>& directories) const {
  const DirectoryId id = directories[number];
  const auto first = static_cast<uint32_t>(tree.nodes_.size());
  tree.begin_entries(number);
  for (uint32_t i = grouping.begin[id]; i < grouping.begin[id + 1]; ++i) {
    const Entry& entry = entries_[grouping.order[i]];
    const auto slot = static_cast<uint32_t>(tree.nodes_.size());
    tree.add_entry(
        number, {.name = entry.name, .target = entry.target, .is_directory = entry.is_directory});
    if (entry.is_directory) directories.push_back(entry.target);
    // Only now, because the path in the error needs the directory's entry.
    if (grouping.order[i] == faulty_entry_) refuse(tree, slot, fault_);
    if (slot > first && tree.name_of(tree.nodes_[slot - 1]) == tree.name_of(tree.nodes_[slot])) {
      refuse(tree, slot, "the same name twice in one directory");
    }
  }
}

void TreeBuilder::refuse(const PickleTree& tree, uint32_t slot, const std::string& reason) const {
  refuse(in_quotes(tree.path(tree.ino_of(slot))) + ": " + reason);
}

void TreeBuilder::refuse(const std::string& reason) const {
  throw FormatError(file_, "bad index: " + reason);
}

}  // namespace ffrfs
