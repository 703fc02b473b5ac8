#include "union/union_directories.h"

#include <algorithm>
#include <string>

#include "io/error.h"
#include "tree/tree_builder.h"
#include "union/union_cursor.h"

namespace ffrfs {
namespace {

constexpr size_t kMemberLimit = size_t{1} << 24;

}  // namespace

UnionDirectories::UnionDirectories(const UnionParts& parts)
    : parts_(parts), groups_(1), places_(parts.count()) {
  std::vector<Ino> roots;
  for (size_t part = 0; part < parts.count(); ++part) {
    roots.push_back(UnionParts::ino_of(part, kRootIno));
  }
  add(roots);
  uint32_t depth = 0;
  size_t depth_end = 1;  // where the directories of the next depth begin
  for (size_t number = 0; number < count(); ++number) {
    if (number == depth_end) {
      if (++depth > TreeBuilder::kDepthLimit) {
        throw FormatError(parts.part_of(members_of(number)[0]).pack,
                          "bad index: more than " + std::to_string(TreeBuilder::kDepthLimit) +
                              " directories deep");
      }
      depth_end = count();
    }
    add_subdirectories(number);
  }
  for (std::vector<Place>& places : places_) {
    std::ranges::sort(places, {}, &Place::own);
    places.shrink_to_fit();
  }
  members_.shrink_to_fit();
  groups_.shrink_to_fit();
}

void UnionDirectories::add(std::span<const Ino> members) {
  if (members.size() > kMemberLimit - members_.size()) {
    throw FormatError(parts_.part_of(members[0]).pack,
                      "it shares directories with the other packs more than " +
                          std::to_string(kMemberLimit) + " times: mount fewer packs at once");
  }
  const auto number = static_cast<uint32_t>(count());
  for (const Ino ino : members) {
    places_[UnionParts::number_of(ino)].push_back(
        {static_cast<uint32_t>(UnionParts::own(ino)), number});
  }
  members_.insert(members_.end(), members.begin(), members.end());
  groups_.push_back({.begin = static_cast<uint32_t>(members_.size())});
}

void UnionDirectories::add_subdirectories(size_t number) {
  // A copy, because add() reallocates members_.
  const std::vector<Ino> members(members_of(number).begin(), members_of(number).end());
  UnionCursor cursor(parts_, members, &UnionParts::subdirectories);
  while (cursor.next()) {
    ++groups_[number].subdirectory_count;
    if (cursor.inos().size() > 1) add(cursor.inos());
  }
}

std::span<const Ino> UnionDirectories::members_of(size_t number) const {
  return std::span(members_).subspan(groups_[number].begin,
                                     groups_[number + 1].begin - groups_[number].begin);
}

std::span<const Ino> UnionDirectories::members(Ino ino) const {
  const Place* found = place_of(ino);
  return found == nullptr ? std::span<const Ino>() : members_of(found->group);
}

Ino UnionDirectories::shown(Ino ino) const {
  const Place* found = place_of(ino);
  return found == nullptr ? ino : members_of(found->group)[0];
}

uint64_t UnionDirectories::subdirectory_count(Ino ino) const {
  return groups_[place_of(ino)->group].subdirectory_count;
}

const UnionDirectories::Place* UnionDirectories::place_of(Ino ino) const {
  if (!parts_.has(ino)) return nullptr;
  const std::vector<Place>& places = places_[UnionParts::number_of(ino)];
  const auto found = std::ranges::lower_bound(places, UnionParts::own(ino), {}, &Place::own);
  return found != places.end() && found->own == UnionParts::own(ino) ? &*found : nullptr;
}

}  // namespace ffrfs
