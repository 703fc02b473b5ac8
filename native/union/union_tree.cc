#include "union/union_tree.h"

#include <algorithm>
#include <utility>

#include "union/union_conflicts.h"
#include "union/union_cursor.h"

namespace ffrfs {

UnionTree::UnionTree(std::vector<UnionPart> parts, OnConflict on_conflict)
    : parts_(std::move(parts), on_conflict),
      directories_(parts_),
      lookup_([this] { return std::make_unique<UnionLookup>(parts_, directories_); }),
      listing_([this] { return std::make_unique<UnionListing>(parts_, directories_); }) {
  if (on_conflict == OnConflict::kError) refuse_conflicts(parts_, directories_);
  for (size_t number = 0; number < parts_.count(); ++number) {
    file_count_ += parts_.part(number).tree->file_count();
    directory_count_ += parts_.part(number).tree->directory_count();
    link_count_ += parts_.part(number).tree->link_count();
  }
  directory_count_ -= directories_.member_count() - directories_.count();
}

std::optional<Inode> UnionTree::inode(Ino ino) const {
  if (!is_shown(ino)) return std::nullopt;
  const std::optional<Inode> inode = parts_.inode(ino);
  if (!inode) return inode;
  return merged(ino, *inode);
}

std::vector<Inode> UnionTree::inodes(std::span<const Ino> inos) const {
  std::vector<Inode> found;
  found.reserve(inos.size());
  // Handles runs of inodes of one part, because a listing has few changes of part.
  while (found.size() < inos.size()) {
    const std::span<const Ino> rest = inos.subspan(found.size());
    const size_t part = UnionParts::number_of(rest[0]);
    const auto next =
        std::ranges::find_if(rest, [part](Ino ino) { return UnionParts::number_of(ino) != part; });
    const std::span<const Ino> run(rest.begin(), next);
    if (!std::ranges::all_of(run, [this](Ino ino) { return is_shown(ino); })) {
      throw std::bad_optional_access();
    }
    const std::vector<Inode> inodes = parts_.inodes(run);
    for (size_t i = 0; i < run.size(); ++i) found.push_back(merged(run[i], inodes[i]));
  }
  return found;
}

Inode UnionTree::merged(Ino ino, Inode inode) const {
  inode.parent = directories_.shown(inode.parent);
  if (!inode.is_directory() || directories_.members(ino).empty()) return inode;
  inode.subdirectory_count = directories_.subdirectory_count(ino);
  inode.may_hide_some = parts_.on_conflict() != OnConflict::kError;
  return inode;
}

Ino UnionTree::lookup(Ino parent, std::string_view name) const {
  if (!is_shown(parent)) return 0;
  const std::span<const Ino> members = directories_.members(parent);
  return members.empty() ? parts_.lookup(parent, name) : lookup_.get().find(parent, name);
}

std::vector<Dentry> UnionTree::list(Ino directory, uint64_t start, uint64_t limit) const {
  if (!is_shown(directory)) return {};
  if (directories_.members(directory).empty()) return parts_.list(directory, start, limit);
  return listing_.get().list(directory, start, limit);
}

std::vector<Dentry> UnionTree::subdirectories(Ino directory, uint64_t start, uint64_t limit) const {
  if (!is_shown(directory)) return {};
  const std::span<const Ino> members = directories_.members(directory);
  if (members.empty()) return parts_.subdirectories(directory, start, limit);
  std::vector<Dentry> entries;
  UnionCursor cursor(parts_, members, &UnionParts::subdirectories);
  for (uint64_t position = 0; entries.size() < limit && cursor.next(); ++position) {
    if (position < start) continue;
    entries.push_back({cursor.name(), directories_.shown(cursor.inos()[0])});
  }
  return entries;
}

std::string UnionTree::target(Ino ino) const {
  if (!parts_.has(ino)) return {};
  return parts_.part_of(ino).tree->target(UnionParts::own(ino));
}

std::string UnionTree::name(Ino ino) const {
  return parts_.has(ino) ? parts_.name(ino) : std::string();
}

Ino UnionTree::file_of(uint64_t record) const {
  const size_t number = parts_.part_of_record(record);
  const UnionPart& part = parts_.part(number);
  return UnionParts::ino_of(number, part.tree->file_of(record - part.first_record));
}

bool UnionTree::is_shown(Ino ino) const {
  return parts_.has(ino) && directories_.shown(ino) == ino;
}

}  // namespace ffrfs
