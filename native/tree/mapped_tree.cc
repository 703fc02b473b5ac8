#include "tree/mapped_tree.h"

#include <sys/stat.h>

#include <algorithm>

#include "io/error.h"

namespace ffrfs {
namespace {

constexpr unsigned kPermissions = 0777;

}  // namespace

MappedTree::MappedTree(const IndexMap& index)
    : index_(index),
      slot_count_(index.count(Section::kInodes)),
      directory_count_(index.count(Section::kDirectories)),
      // IndexMap has checked that these counts are consistent.
      file_count_(slot_count_ - directory_count_ - index.link_count()) {
  if (!inode(kRootIno)->is_directory()) refuse(0, "the root is not a directory");
}

std::optional<Inode> MappedTree::inode(Ino ino) const {
  const std::optional<Slot> slot = slot_of(ino);
  if (!slot) return std::nullopt;
  return inode_at(*slot);
}

Ino MappedTree::lookup(Ino parent, std::string_view name) const {
  const std::optional<IndexDirectory> in = directory(parent);
  if (!in) return 0;
  Slot low = in->first_child;
  Slot high = low + in->entry_count;
  while (low < high) {
    const Slot middle = low + (high - low) / 2;
    const IndexInode found = entry(middle);
    const int order = raw_name(found).view().compare(name);
    if (order == 0) {
      check_inside(middle, found, *in);
      (void)checked_name(middle, found);
      return ino_of(middle);
    }
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return 0;
}

std::vector<Dentry> MappedTree::list(Ino directory_ino, uint64_t start, uint64_t limit) const {
  std::vector<Dentry> entries;
  const std::optional<IndexDirectory> in = directory(directory_ino);
  if (!in || start >= in->entry_count) return entries;
  const Slot begin = in->first_child + static_cast<Slot>(start);
  const Slot end = begin + static_cast<Slot>(std::min(limit, in->entry_count - start));
  entries.reserve(end - begin);
  // Compares each name with the one before it, even that of the previous call, so that no name is
  // returned twice, however a directory is listed.
  std::string before;
  if (start > 0) before = raw_name(entry(begin - 1)).view();
  for (Slot slot = begin; slot < end; ++slot) {
    const IndexInode found = entry(slot);
    check_inside(slot, found, *in);
    before = next_name(slot, found, before);
    entries.push_back({before, ino_of(slot)});
  }
  return entries;
}

std::vector<Dentry> MappedTree::subdirectories(Ino directory_ino, uint64_t start,
                                               uint64_t limit) const {
  std::vector<Dentry> entries;
  const std::optional<IndexDirectory> in = directory(directory_ino);
  if (!in || start >= in->subdirectory_count) return entries;
  const uint64_t begin = in->first_subdirectory + start;
  const uint64_t end = begin + std::min(limit, in->subdirectory_count - start);
  entries.reserve(end - begin);
  std::string before;
  if (start > 0) before = raw_name(entry(directory_at(begin - 1).slot)).view();
  for (uint64_t number = begin; number < end; ++number) {
    const Slot slot = directory_at(number).slot;
    const IndexInode found = entry(slot);
    check_inside(slot, found, *in);
    if (kind_of(slot, found) != InodeKind::kDirectory || found.value != number) {
      refuse(slot, "another directory's place leads to it");
    }
    before = next_name(slot, found, before);
    entries.push_back({before, ino_of(slot)});
  }
  return entries;
}

std::string MappedTree::target(Ino ino) const {
  const std::optional<Slot> slot = slot_of(ino);
  if (!slot) return {};
  const IndexInode found = entry(*slot);
  if (kind_of(*slot, found) != InodeKind::kSymlink) return {};
  return target_of(*slot, found);
}

std::string MappedTree::name(Ino ino) const {
  const std::optional<Slot> slot = slot_of(ino);
  if (!slot || *slot == 0) return {};
  return checked_name(*slot, entry(*slot));
}

Ino MappedTree::file_of(uint64_t record) const {
  if (record >= index_.count(Section::kFiles)) return 0;
  const auto slot = index_.load<uint32_t>(Section::kFiles, record * sizeof(uint32_t));
  if (slot >= slot_count_) return 0;
  const IndexInode found = entry(slot);
  return S_ISREG(found.mode) && found.value == record ? ino_of(slot) : 0;
}

std::optional<MappedTree::Slot> MappedTree::slot_of(Ino ino) const {
  if (ino < kRootIno || ino - kRootIno >= slot_count_) return std::nullopt;
  return static_cast<Slot>(ino - kRootIno);
}

IndexInode MappedTree::entry(Slot slot) const {
  return index_.load<IndexInode>(Section::kInodes, uint64_t{slot} * sizeof(IndexInode));
}

Inode MappedTree::inode_at(Slot slot) const {
  const IndexInode found = entry(slot);
  Inode inode;
  if (slot != 0) {
    check_parent(slot, found);
    inode.parent = ino_of(found.parent);
  }
  inode.kind = kind_of(slot, found);
  switch (inode.kind) {
    case InodeKind::kFile:
      // The last record is the index.
      if (found.value >= index_.record_count() - 1) refuse(slot, "a file without a record");
      inode.record = found.value;
      break;
    case InodeKind::kDirectory: {
      const IndexDirectory itself = directory(slot, found);
      inode.entry_count = itself.entry_count;
      inode.subdirectory_count = itself.subdirectory_count;
      break;
    }
    case InodeKind::kSymlink: inode.size = target_of(slot, found).size(); break;
  }
  const uint16_t mode = found.mode & kPermissions;
  if (mode != 0 || found.mtime_ns != kUnknownMtime) {
    inode.mode = mode;
    inode.mtime_ns = found.mtime_ns;
  }
  return inode;
}

IndexDirectory MappedTree::directory_at(uint64_t number) const {
  return index_.load<IndexDirectory>(Section::kDirectories, number * sizeof(IndexDirectory));
}

InodeKind MappedTree::kind_of(Slot slot, const IndexInode& inode) const {
  if (S_ISREG(inode.mode)) return InodeKind::kFile;
  if (S_ISDIR(inode.mode)) return InodeKind::kDirectory;
  if (S_ISLNK(inode.mode)) return InodeKind::kSymlink;
  refuse(slot, "neither file, directory nor symbolic link");
}

IndexDirectory MappedTree::directory(Slot slot, const IndexInode& inode) const {
  if (inode.value >= directory_count_) refuse(slot, "a directory that has no place");
  const IndexDirectory found = directory_at(inode.value);
  if (found.slot != slot) refuse(slot, "its place is another directory's");
  if (found.entry_count > 0 && (found.first_child <= slot || found.first_child > slot_count_ ||
                                found.entry_count > slot_count_ - found.first_child)) {
    refuse(slot, "a directory whose entries are not where they can be");
  }
  if (found.subdirectory_count > 0 &&
      (found.first_subdirectory <= inode.value || found.first_subdirectory > directory_count_ ||
       found.subdirectory_count > directory_count_ - found.first_subdirectory ||
       found.subdirectory_count > found.entry_count)) {
    refuse(slot, "a directory whose subdirectories are not where they can be");
  }
  return found;
}

std::optional<IndexDirectory> MappedTree::directory(Ino ino) const {
  const std::optional<Slot> slot = slot_of(ino);
  if (!slot) return std::nullopt;
  const IndexInode found = entry(*slot);
  if (!S_ISDIR(found.mode)) return std::nullopt;
  return directory(*slot, found);
}

void MappedTree::check_inside(Slot slot, const IndexInode& inode, const IndexDirectory& in) const {
  if (inode.parent != in.slot || slot < in.first_child || slot - in.first_child >= in.entry_count) {
    refuse(slot, "it is in another directory than it says");
  }
}

void MappedTree::check_parent(Slot slot, const IndexInode& inode) const {
  // Parents come before children, so that every path up ends at the root.
  if (inode.parent >= slot) refuse(slot, "it comes before its directory");
  const IndexInode parent = entry(inode.parent);
  if (!S_ISDIR(parent.mode)) refuse(slot, "its parent is not a directory");
  check_inside(slot, inode, directory(inode.parent, parent));
}

MappedTree::RawName MappedTree::raw_name(const IndexInode& inode) const {
  RawName name(inode.name_size);
  index_.copy(Section::kNames, inode.name_offset, std::as_writable_bytes(name.bytes()));
  return name;
}

std::string MappedTree::checked_name(Slot slot, const IndexInode& inode) const {
  if (inode.name_size > kNameSizeLimit) refuse(slot, "a name of more than 255 bytes");
  const RawName name = raw_name(inode);
  if (const char* fault = name_fault(name.view())) refuse(slot, fault);
  return std::string(name.view());
}

std::string MappedTree::next_name(Slot slot, const IndexInode& inode,
                                  std::string_view before) const {
  std::string name = checked_name(slot, inode);
  if (name <= before) refuse(slot, "its name is not behind the one before it");
  return name;
}

std::string MappedTree::target_of(Slot slot, const IndexInode& inode) const {
  const auto size = index_.load<uint32_t>(Section::kTargets, inode.value);
  if (size == 0 || size > kTargetSizeLimit) {
    refuse(slot, "a link to a path of " + std::to_string(size) + " bytes");
  }
  std::string target(size, '\0');
  index_.copy(Section::kTargets, inode.value + sizeof size,
              std::as_writable_bytes(std::span(target)));
  if (target.find('\0') != std::string::npos) refuse(slot, "a link to a path with NUL");
  return target;
}

void MappedTree::refuse(Slot slot, const std::string& reason) const {
  throw FormatError(index_.path(), "bad index: slot " + std::to_string(slot) + ": " + reason);
}

}  // namespace ffrfs
