#include "tree/union_lookup.h"

#include <optional>
#include <vector>

namespace ffrfs {

UnionLookup::UnionLookup(const UnionParts& parts, const UnionDirectories& directories)
    : parts_(parts),
      directories_(directories),
      orders_(std::make_unique<std::atomic<Order>[]>(directories.count())) {}

Ino UnionLookup::find(Ino directory, std::string_view name) const {
  const size_t number = directories_.number_of(directory);
  const std::span<const Ino> members = directories_.members_of(number);
  const Ino found =
      is_by_part(number) ? find_by_part(members, name) : find_in_turn(members, name);
  return directories_.shown(found);
}

bool UnionLookup::is_by_part(size_t number) const {
  Order order = orders_[number].load(std::memory_order_relaxed);
  if (order == Order::kUnknown) {
    order = follow_each_other(directories_.members_of(number)) ? Order::kByPart : Order::kMixed;
    orders_[number].store(order, std::memory_order_relaxed);
  }
  return order == Order::kByPart;
}

bool UnionLookup::follow_each_other(std::span<const Ino> directories) const {
  std::optional<Dentry> before;
  for (const Ino directory : directories) {
    const uint64_t count = parts_.inode(directory)->entry_count;
    const std::vector<Dentry> first = parts_.list(directory, 0, 1);
    if (first.empty()) return false;  // there is no name to go by
    if (before && first[0].name <= before->name &&
        (first[0].name < before->name ||
         directories_.shown(first[0].ino) != directories_.shown(before->ino))) {
      return false;
    }
    std::vector<Dentry> last = parts_.list(directory, count - 1, 1);
    if (last.empty()) return false;
    before = std::move(last[0]);
  }
  return true;
}

Ino UnionLookup::find_by_part(std::span<const Ino> directories, std::string_view name) const {
  // The last that does not begin behind the name.
  size_t low = 0;
  size_t high = directories.size();
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    const std::vector<Dentry> first = parts_.list(directories[middle], 0, 1);
    if (!first.empty() && first[0].name <= name) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return parts_.lookup(directories[low], name);
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
