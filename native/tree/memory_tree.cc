#include "tree/memory_tree.h"

#include <algorithm>

namespace ffrfs {
namespace {

constexpr uint32_t kParentMask = (uint32_t{1} << 31) - 1;  // of the 31 bits of a node's parent

}  // namespace

std::optional<Inode> MemoryTree::inode(Ino ino) const {
  const Node* found = node(ino);
  if (found == nullptr) return std::nullopt;
  Inode inode{.parent = ino == top_ ? top_parent_ : ino_of(directories_[found->parent].slot)};
  if (found->is_directory) {
    const Directory& itself = directories_[found->target];
    inode.kind = InodeKind::kDirectory;
    inode.entry_count = itself.entry_count;
    inode.subdirectory_count = itself.subdirectory_count;
  } else {
    describe_file(*found, inode);
  }
  return inode;
}

Ino MemoryTree::lookup(Ino parent, std::string_view name) const {
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

std::vector<Dentry> MemoryTree::list(Ino directory_ino, uint64_t start, uint64_t limit) const {
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

std::vector<Dentry> MemoryTree::subdirectories(Ino directory_ino, uint64_t start,
                                               uint64_t limit) const {
  std::vector<Dentry> entries;
  const Directory* in = directory(directory_ino);
  if (in == nullptr || start >= in->subdirectory_count) return entries;
  // Directories are in the order of their slots, so the subdirectories of one are adjacent.
  const auto first =
      std::lower_bound(directories_.begin() + 1, directories_.end(), in->first,
                       [](const Directory& entry, uint32_t wanted) { return entry.slot < wanted; });
  const auto begin = first + static_cast<ptrdiff_t>(start);
  const auto end = begin + static_cast<ptrdiff_t>(std::min(limit, in->subdirectory_count - start));
  entries.reserve(static_cast<size_t>(end - begin));
  for (auto entry = begin; entry != end; ++entry) {
    entries.push_back({std::string(name_of(nodes_[entry->slot])), ino_of(entry->slot)});
  }
  return entries;
}

std::string MemoryTree::name(Ino ino) const {
  const Node* found = node(ino);
  return found == nullptr ? std::string() : std::string(name_of(*found));
}

void MemoryTree::add_entry(uint32_t number, Node node) {
  node.parent = number & kParentMask;
  ++directories_[number].entry_count;
  if (node.is_directory) {
    ++directories_[number].subdirectory_count;
    node.target = static_cast<uint32_t>(directories_.size());
    directories_.push_back({.slot = static_cast<uint32_t>(nodes_.size())});
  }
  nodes_.push_back(node);
}

const MemoryTree::Node* MemoryTree::node(Ino ino) const {
  if (ino < top_ || ino - top_ >= nodes_.size()) return nullptr;
  return &nodes_[ino - top_];
}

const MemoryTree::Directory* MemoryTree::directory(Ino ino) const {
  const Node* found = node(ino);
  return found != nullptr && found->is_directory ? &directories_[found->target] : nullptr;
}

std::string_view MemoryTree::name_of(const Node& node) const {
  const char* begin = names_.data() + node.name;
  return {begin + 1, static_cast<unsigned char>(*begin)};
}

uint64_t MemoryTree::table_bytes() const {
  return names_.capacity() + nodes_.capacity() * sizeof(Node) +
         directories_.capacity() * sizeof(Directory);
}

}  // namespace ffrfs
