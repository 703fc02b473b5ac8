#include "tree/folder_tree.h"

#include <algorithm>
#include <utility>

namespace ffrfs {

std::optional<Inode> FolderTree::inode(Ino ino) const {
  const Node* found = node(ino);
  if (found == nullptr) return std::nullopt;
  Inode inode{.parent = ino_of(directories_[found->parent].slot)};
  if (found->is_directory) {
    const Directory& itself = directories_[found->target];
    inode.is_directory = true;
    inode.entry_count = itself.entry_count;
    inode.subdirectory_count = itself.subdirectory_count;
  } else {
    inode.record = found->target;
  }
  return inode;
}

Ino FolderTree::lookup(Ino parent, std::string_view name) const {
  const Directory* in = directory(parent);
  if (in == nullptr) return 0;
  const auto first = nodes_.begin() + in->first;
  const auto last = first + in->entry_count;
  const auto found = std::lower_bound(
      first, last, name,
      [this](const Node& entry, std::string_view wanted) { return name_of(entry) < wanted; });
  if (found == last || name_of(*found) != name) return 0;
  return ino_of(static_cast<uint32_t>(found - nodes_.begin()));
}

std::vector<Dentry> FolderTree::list(Ino directory_ino, uint64_t start, uint64_t limit) const {
  std::vector<Dentry> entries;
  const Directory* in = directory(directory_ino);
  if (in == nullptr || start >= in->entry_count) return entries;
  const auto begin = in->first + static_cast<uint32_t>(start);
  const auto end = begin + static_cast<uint32_t>(std::min(limit, in->entry_count - start));
  entries.reserve(end - begin);
  for (uint32_t slot = begin; slot < end; ++slot) {
    entries.push_back({std::string(name_of(nodes_[slot])), ino_of(slot)});
  }
  return entries;
}

std::string FolderTree::name(Ino ino) const {
  const Node* found = node(ino);
  return found == nullptr ? std::string() : std::string(name_of(*found));
}

Ino FolderTree::file_of(uint64_t record) const {
  const auto found = std::lower_bound(
      files_.begin(), files_.end(), record,
      [this](uint32_t slot, uint64_t wanted) { return nodes_[slot].target < wanted; });
  return found != files_.end() && nodes_[*found].target == record ? ino_of(*found) : 0;
}

uint64_t FolderTree::memory_bytes() const {
  return sizeof *this + names_.capacity() + nodes_.capacity() * sizeof(Node) +
         directories_.capacity() * sizeof(Directory) + files_.capacity() * sizeof(uint32_t);
}

const FolderTree::Node* FolderTree::node(Ino ino) const {
  if (ino < kRootIno || ino - kRootIno >= nodes_.size()) return nullptr;
  return &nodes_[ino - kRootIno];
}

const FolderTree::Directory* FolderTree::directory(Ino ino) const {
  const Node* found = node(ino);
  return found != nullptr && found->is_directory ? &directories_[found->target] : nullptr;
}

std::string_view FolderTree::name_of(const Node& node) const {
  const char* begin = names_.data() + node.name;
  return {begin + 1, static_cast<unsigned char>(*begin)};
}

void FolderTree::index_files() {
  files_.reserve(nodes_.size() - directories_.size());
  for (uint32_t slot = 0; slot < nodes_.size(); ++slot) {
    if (!nodes_[slot].is_directory) files_.push_back(slot);
  }
  // Of several names of a record, the lowest slot comes first.
  const auto by_record = [this](uint32_t a, uint32_t b) {
    return std::pair(nodes_[a].target, a) < std::pair(nodes_[b].target, b);
  };
  if (!std::is_sorted(files_.begin(), files_.end(), by_record)) {
    std::sort(files_.begin(), files_.end(), by_record);
  }
}

}  // namespace ffrfs
