// Estimates the size of records in a pack, by which a set is divided into shards.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "entries/entry_list.h"

namespace ffrfs {

// The fixed cost of a pack: its index begins at a multiple of 4096 and has a trailer, and its first
// file needs its folders again.
inline constexpr uint64_t kPackCost = 12288;

[[nodiscard]] uint64_t file_cost(uint64_t size, std::string_view name);
[[nodiscard]] uint64_t link_cost(size_t name_size, size_t target_size);
// The cost of a folder at that depth, with the folders above it. It is added whenever a file is not
// in the folder of the file before it. Links and empty folders are counted separately, in the same
// way.
[[nodiscard]] uint64_t folder_cost(size_t depth, size_t path_size);

// Returns the cost of each of these records, with its links and empty folders.
[[nodiscard]] std::vector<uint64_t> record_costs(const EntryList& list, uint32_t first,
                                                 uint32_t count);

}  // namespace ffrfs
