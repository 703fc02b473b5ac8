#include "open/set_inventory.h"

#include <algorithm>

namespace ffrfs {
namespace {

constexpr size_t kGapsToldMax = 10;

std::string to_text(uint32_t first, uint32_t last) {
  return first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
}

// Returns the runs of numbers below `count` that are not among `numbers`: "3, 5-9"; "" if there are
// none. The text is bounded by the size of `numbers`, whatever `count` claims.
std::string missing(std::vector<uint32_t> numbers, uint32_t count) {
  std::ranges::sort(numbers);
  numbers.push_back(count);
  std::string text;
  size_t gap_count = 0;
  uint32_t next = 0;
  for (const uint32_t number : numbers) {
    if (number > next && ++gap_count <= kGapsToldMax) {
      text += (text.empty() ? "" : ", ") + to_text(next, number - 1);
    }
    next = std::max(next, number + 1);
  }
  if (gap_count > kGapsToldMax) text += ", and more";
  return text;
}

}  // namespace

void SetInventory::add(const std::string& path, const IndexSet& shard) {
  Set& set = sets_[shard.id];
  if (set.numbers.empty()) set.path = path;
  // Shards that were appended later have a larger count than those before them. A shard whose
  // number is beyond its own count is taken for the last one.
  const uint32_t number = std::min(shard.number, UINT32_MAX - 1);
  set.count = std::max({set.count, shard.count, number + 1});
  set.numbers.push_back(number);
}

std::vector<std::string> SetInventory::gaps() const {
  std::vector<std::string> lines;
  for (const auto& [id, set] : sets_) {
    const std::string numbers = missing(set.numbers, set.count);
    if (numbers.empty()) continue;
    lines.push_back(set.path + ": is one of " + std::to_string(set.count) +
                    " shards; missing: number " + numbers);
  }
  return lines;
}

}  // namespace ffrfs
