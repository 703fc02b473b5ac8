// Which sets packs are shards of, and whether all shards of each are there.
//
// Plain data: its owner guards it.

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
  // The pack at `path` is that shard.
  void add(const std::string& path, const IndexSet& shard);

  // A line for each set that lacks some, with their numbers.
  [[nodiscard]] std::vector<std::string> gaps() const;

 private:
  struct Set {
    std::string path;     // of the first of its packs
    uint32_t count = 0;   // of its shards, as the youngest of them knows it
    std::vector<uint32_t> numbers;
  };
  std::map<std::array<std::byte, 16>, Set> sets_;
};

}  // namespace ffrfs
