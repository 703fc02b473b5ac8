#include "union/union_part.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "io/error.h"

namespace ffrfs {
namespace {

constexpr size_t kPartLimit = 65'536;

std::vector<size_t> sets_of(const std::vector<UnionPart>& parts) {
  struct Set {
    size_t number = 0;
    std::set<uint32_t> shards;
  };
  std::map<std::array<std::byte, 16>, Set> known;
  std::vector<size_t> sets;
  for (size_t number = 0; number < parts.size(); ++number) {
    sets.push_back(number);
    if (!parts[number].set) continue;
    Set& set = known.try_emplace(parts[number].set->id, Set{number, {}}).first->second;
    if (set.shards.insert(parts[number].set->number).second) sets.back() = set.number;
  }
  return sets;
}

}  // namespace

UnionParts::UnionParts(std::vector<UnionPart> parts, OnConflict on_conflict)
    : parts_(std::move(parts)), sets_(sets_of(parts_)), on_conflict_(on_conflict) {
  if (parts_.size() > kPartLimit) {
    throw FormatError(parts_[0].pack + " and " + std::to_string(parts_.size() - 1) +
                      " others: more than " + std::to_string(kPartLimit) +
                      " packs cannot be shown as one tree");
  }
}

std::optional<Inode> UnionParts::inode(Ino ino) const {
  const std::optional<Inode> inode = part_of(ino).tree->inode(own(ino));
  if (!inode) return inode;
  return numbered(number_of(ino), *inode);
}

std::vector<Inode> UnionParts::inodes(std::span<const Ino> inos) const {
  if (inos.empty()) return {};
  std::vector<Ino> owns(inos.size());
  std::ranges::transform(inos, owns.begin(), own);
  std::vector<Inode> inodes = part_of(inos[0]).tree->inodes(owns);
  for (Inode& inode : inodes) inode = numbered(number_of(inos[0]), inode);
  return inodes;
}

Ino UnionParts::lookup(Ino directory, std::string_view name) const {
  return ino_of(number_of(directory), part_of(directory).tree->lookup(own(directory), name));
}

std::vector<Dentry> UnionParts::list(Ino directory, uint64_t start, uint64_t limit) const {
  return numbered(number_of(directory),
                  part_of(directory).tree->list(own(directory), start, limit));
}

std::vector<Dentry> UnionParts::subdirectories(Ino directory, uint64_t start,
                                               uint64_t limit) const {
  return numbered(number_of(directory),
                  part_of(directory).tree->subdirectories(own(directory), start, limit));
}

std::string UnionParts::name(Ino ino) const { return part_of(ino).tree->name(own(ino)); }

size_t UnionParts::part_of_record(uint64_t record) const {
  const auto next = std::ranges::upper_bound(parts_, record, {}, &UnionPart::first_record);
  return next == parts_.begin() ? 0 : static_cast<size_t>(next - parts_.begin()) - 1;
}

Inode UnionParts::numbered(size_t part, Inode inode) const {
  inode.parent = ino_of(part, inode.parent);
  if (inode.is_file()) inode.record += parts_[part].first_record;
  return inode;
}

std::vector<Dentry> UnionParts::numbered(size_t part, std::vector<Dentry> entries) {
  for (Dentry& entry : entries) entry.ino = ino_of(part, entry.ino);
  return entries;
}

}  // namespace ffrfs
