#include "example/example_tree.h"

#include <algorithm>
#include <string>

#include "io/error.h"
#include "tree/name.h"

namespace ffrfs {
namespace {

constexpr uint64_t kRecordLimit = (uint64_t{1} << 40) - 1;

uint64_t checked(uint64_t record_count) {
  if (record_count <= kRecordLimit) return record_count;
  throw FormatError("more than " + std::to_string(kRecordLimit) +
                    " records cannot be shown as directories");
}

}  // namespace

ExampleTree::ExampleTree(uint64_t record_count, const ExampleOptions& options)
    : is_grouped_(false), record_count_(checked(record_count)), options_(options) {
  groups_.emplace_back("", kRootIno, 0, record_count_);
}

ExampleTree::ExampleTree(std::span<const ExampleGroup> groups, const ExampleOptions& options)
    : is_grouped_(true), options_(options) {
  if (groups.size() > (uint64_t{1} << kInoBits) - kFirstGroupIno) {
    throw FormatError("too many groups of records");
  }
  for (const ExampleGroup& group : groups) {
    const char* fault = name_fault(group.name);
    if (group.name.size() > kNameSizeLimit) fault = "a name longer than 255 bytes";
    if (!groups_.empty() && groups_.back().name >= group.name) fault = "names not in order";
    if (fault != nullptr) throw FormatError("groups of records: " + std::string(fault));
    const uint64_t count = checked(group.record_count);
    groups_.emplace_back(group.name, kFirstGroupIno + groups_.size(), record_count_, count);
    record_count_ = checked(record_count_ + count);
  }
}

std::optional<Inode> ExampleTree::inode(Ino ino) const {
  if (ino == kRootIno && is_grouped_) {
    return Inode{.kind = InodeKind::kDirectory,
                 .entry_count = groups_.size(),
                 .subdirectory_count = groups_.size()};
  }
  if (const Group* const group = group_at(ino)) {
    const uint64_t count = group->records.file_count();
    return Inode{.kind = InodeKind::kDirectory, .entry_count = count, .subdirectory_count = count};
  }
  if (!is_folder(ino)) return std::nullopt;
  return Inode{.kind = InodeKind::kDirectory, .parent = group_of(*record_of(ino)).ino};
}

Ino ExampleTree::lookup(Ino parent, std::string_view name) const {
  if (const Group* const group = group_at(parent)) {
    return folder_of(*group, group->records.lookup(kRootIno, name));
  }
  if (parent != kRootIno) return 0;
  const auto found = std::ranges::lower_bound(groups_, name, {}, &Group::name);
  return found != groups_.end() && found->name == name ? found->ino : 0;
}

std::vector<Dentry> ExampleTree::list(Ino directory, uint64_t start, uint64_t limit) const {
  std::vector<Dentry> entries;
  if (const Group* const group = group_at(directory)) {
    entries = group->records.list(kRootIno, start, limit);
    for (Dentry& entry : entries) entry.ino = folder_of(*group, entry.ino);
  } else if (directory == kRootIno && start < groups_.size()) {
    const uint64_t end = start + std::min<uint64_t>(limit, groups_.size() - start);
    for (uint64_t i = start; i < end; ++i) entries.push_back({groups_[i].name, groups_[i].ino});
  }
  return entries;
}

std::string ExampleTree::name(Ino ino) const {
  if (const Group* const group = group_at(ino)) return group->name;
  return is_folder(ino) ? place(*record_of(ino)).name : std::string();
}

Ino ExampleTree::file_of(uint64_t record) const {
  return record < record_count_ ? folder_ino(record) : 0;
}

bool ExampleTree::is_folder(Ino ino) const {
  const auto record = record_of(ino);
  return record && folder_ino(*record) == ino;
}

const ExampleTree::Group* ExampleTree::group_at(Ino ino) const {
  const Ino first = is_grouped_ ? kFirstGroupIno : kRootIno;
  return ino >= first && ino - first < groups_.size() ? &groups_[ino - first] : nullptr;
}

// `record` must exist; if several groups begin with it, only the last is not empty.
const ExampleTree::Group& ExampleTree::group_of(uint64_t record) const {
  return *std::prev(std::ranges::upper_bound(groups_, record, {}, &Group::first_record));
}

ExamplePlace ExampleTree::place(uint64_t record) const {
  const Group& group = group_of(record);
  const FlatTree& records = group.records;
  return {.number = record,
          .name = records.name(records.file_of(record - group.first_record)),
          .parent = group.ino};
}

std::unique_ptr<const Tree> ExampleTree::make(uint64_t record,
                                              std::span<const std::byte> bytes) const {
  return ExampleFolder::make(bytes, place(record), options_);
}

std::unique_ptr<const Tree> ExampleTree::make_opaque(uint64_t record, uint64_t size) const {
  return ExampleFolder::make_opaque(size, place(record));
}

Ino ExampleTree::folder_of(const Group& group, Ino file) {
  const std::optional<Inode> found = group.records.inode(file);
  return found && found->is_file() ? folder_ino(group.first_record + found->record) : 0;
}

}  // namespace ffrfs
