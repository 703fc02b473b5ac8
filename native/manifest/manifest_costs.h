// What records take in a pack, as far as it can be told before: what a set is cut by.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"

namespace ffrfs {

// What every pack has: the index begins at a multiple of 4096 and has its trailer; and the folders
// that its first file is in.
inline constexpr uint64_t kPackCost = 12288;

[[nodiscard]] uint64_t file_cost(uint64_t size, std::string_view name);
[[nodiscard]] uint64_t link_cost(size_t name_size, size_t target_size);
// Of a folder so deep, with those above it. It is paid whenever the next file is in another folder
// than the one before, and the next link, or empty folder, in another than the one before that.
[[nodiscard]] uint64_t folder_cost(size_t depth, size_t path_size);

// Of each of these records, with what goes with it of links and empty folders.
[[nodiscard]] std::vector<uint64_t> record_costs(const Manifest& list, uint32_t first,
                                                 uint32_t count);

}  // namespace ffrfs
