#include "union/union_lookup.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

namespace ffrfs {
namespace {

const std::vector<std::string> kNoOrder;

uint64_t memory_bytes_of(const std::vector<std::string>& names) {
  uint64_t bytes = sizeof names + names.capacity() * sizeof(std::string);
  for (const std::string& name : names) bytes += name.capacity() + 1;
  return bytes;
}

}  // namespace

UnionLookup::UnionLookup(const UnionParts& parts, const UnionDirectories& directories)
    : parts_(parts),
      directories_(directories),
      known_(std::make_unique<std::atomic<const FirstNames*>[]>(directories.count())) {}

Ino UnionLookup::find(Ino directory, std::string_view name) const {
  return directories_.shown(find_in_parts(directories_.number_of(directory), name));
}

Ino UnionLookup::find_in_parts(size_t number, std::string_view name) const {
  const std::span<const Ino> members = directories_.members_of(number);
  const FirstNames& first = first_names(number);
  if (first.empty()) return find_in_turn(members, name);
  // The last part whose first name is not after the name.
  const auto next = std::ranges::upper_bound(first, name);
  if (next == first.begin()) return 0;
  return parts_.lookup(members[static_cast<size_t>(next - first.begin()) - 1], name);
}

const UnionLookup::FirstNames& UnionLookup::first_names(size_t number) const {
  if (const FirstNames* known = known_[number].load(std::memory_order_acquire)) return *known;
  FirstNames found;
  try {
    found = find_first_names(directories_.members_of(number));
  } catch (const std::runtime_error&) {  // damage: only lookups that come across it fail
  }
  const uint64_t size_bytes = memory_bytes_of(found);
  const std::lock_guard lock(mutex_);
  const FirstNames* known = known_[number].load(std::memory_order_relaxed);
  if (known != nullptr) return *known;  // another thread was faster
  if (found.empty() || size_bytes > kNamesLimitBytes - kept_bytes_) {
    known = &kNoOrder;
  } else {
    known = &kept_.emplace_back(std::move(found));
    kept_bytes_ += size_bytes;
  }
  known_[number].store(known, std::memory_order_release);
  return *known;
}

UnionLookup::FirstNames UnionLookup::find_first_names(std::span<const Ino> directories) const {
  FirstNames names;
  std::optional<Dentry> before;
  for (const Ino directory : directories) {
    const uint64_t count = parts_.inode(directory)->entry_count;
    const std::vector<Dentry> first = parts_.list(directory, 0, 1);
    if (first.empty()) return {};  // an empty part has no first name
    if (before && first[0].name <= before->name &&
        (first[0].name < before->name ||
         directories_.shown(first[0].ino) != directories_.shown(before->ino))) {
      return {};
    }
    std::vector<Dentry> last = parts_.list(directory, count - 1, 1);
    if (last.empty()) return {};
    before = std::move(last[0]);
    names.push_back(first[0].name);
  }
  return names;
}

Ino UnionLookup::find_in_turn(std::span<const Ino> directories, std::string_view name) const {
  const bool last_counts = parts_.on_conflict() == OnConflict::kLast;
  for (size_t i = 0; i < directories.size(); ++i) {
    const size_t place = last_counts ? directories.size() - 1 - i : i;
    if (const Ino found = parts_.lookup(directories[place], name)) return found;
  }
  return 0;
}

}  // namespace ffrfs
