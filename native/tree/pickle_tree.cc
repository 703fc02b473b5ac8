#include "tree/pickle_tree.h"

#include <algorithm>
#include <utility>

namespace ffrfs {

Ino PickleTree::file_of(uint64_t record) const {
  const auto found = std::lower_bound(
      files_.begin(), files_.end(), record,
      [this](uint32_t slot, uint64_t wanted) { return nodes_[slot].target < wanted; });
  return found != files_.end() && nodes_[*found].target == record ? ino_of(*found) : 0;
}

uint64_t PickleTree::memory_bytes() const {
  return sizeof *this + table_bytes() + files_.capacity() * sizeof(uint32_t);
}

void PickleTree::index_files() {
  files_.reserve(nodes_.size() - directories_.size());
  for (uint32_t slot = 0; slot < nodes_.size(); ++slot) {
    if (!nodes_[slot].is_directory) files_.push_back(slot);
  }
  // If a record has several names, the lowest slot comes first.
  const auto by_record = [this](uint32_t a, uint32_t b) {
    return std::pair(nodes_[a].target, a) < std::pair(nodes_[b].target, b);
  };
  if (!std::is_sorted(files_.begin(), files_.end(), by_record)) {
    std::sort(files_.begin(), files_.end(), by_record);
  }
}

}  // namespace ffrfs
