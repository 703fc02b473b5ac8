// Knows which sets the packs are shards of, and whether each set is complete.
//
// Plain data: the owner must lock.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "record/index_layout.h"

namespace ffrfs {

class SetInventory {
 public:
  // Notes that the pack at `path` is that shard.
  void add(const std::string& path, const IndexSet& shard);

  // Returns a line for each incomplete set, with the missing numbers.
  [[nodiscard]] std::vector<std::string> gaps() const;

 private:
  struct Set {
    std::string path;     // of the first of its packs
    uint32_t count = 0;   // of its shards, according to the newest of them
    std::vector<uint32_t> numbers;
  };
  std::map<std::array<std::byte, 16>, Set> sets_;
};

}  // namespace ffrfs
