#include "example/example_tree.h"

#include <string>

#include "io/error.h"

namespace ffrfs {
namespace {

constexpr uint64_t kRecordLimit = (uint64_t{1} << 40) - 1;

uint64_t checked(uint64_t record_count) {
  if (record_count <= kRecordLimit) return record_count;
  throw FormatError("more than " + std::to_string(kRecordLimit) +
                    " records cannot be shown as folders");
}

}  // namespace

ExampleTree::ExampleTree(uint64_t record_count, const ExampleOptions& options)
    : records_(checked(record_count)), options_(options) {}

std::optional<Inode> ExampleTree::inode(Ino ino) const {
  if (ino == kRootIno) {
    return Inode{.kind = InodeKind::kDirectory,
                 .entry_count = record_count(),
                 .subdirectory_count = record_count()};
  }
  if (!is_folder(ino)) return std::nullopt;
  return Inode{.kind = InodeKind::kDirectory};
}

Ino ExampleTree::lookup(Ino parent, std::string_view name) const {
  return folder_of(records_.lookup(parent, name));
}

std::vector<Dentry> ExampleTree::list(Ino directory, uint64_t start, uint64_t limit) const {
  std::vector<Dentry> entries = records_.list(directory, start, limit);
  for (Dentry& entry : entries) entry.ino = folder_of(entry.ino);
  return entries;
}

std::string ExampleTree::name(Ino ino) const {
  return is_folder(ino) ? records_.name(records_.file_of(*record_of(ino))) : std::string();
}

Ino ExampleTree::file_of(uint64_t record) const { return folder_of(records_.file_of(record)); }

bool ExampleTree::is_folder(Ino ino) const {
  const auto record = record_of(ino);
  return record && folder_ino(*record) == ino;
}

std::unique_ptr<const Tree> ExampleTree::make(uint64_t record,
                                              std::span<const std::byte> bytes) const {
  return ExampleFolder::make(bytes, record, name(folder_ino(record)), options_);
}

std::unique_ptr<const Tree> ExampleTree::make_opaque(uint64_t record, uint64_t size) const {
  return ExampleFolder::make_opaque(size, record, name(folder_ino(record)));
}

Ino ExampleTree::folder_of(Ino file) const {
  const std::optional<Inode> found = records_.inode(file);
  return found && found->is_file() ? folder_ino(found->record) : 0;
}

}  // namespace ffrfs
