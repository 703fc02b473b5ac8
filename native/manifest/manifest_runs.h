// Which records of a Manifest go to which pack, where there are several.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "manifest/manifest.h"

namespace ffrfs {

// (first record, count), one behind the other; at least one run. The list is numbered.
using ManifestRuns = std::vector<std::pair<uint32_t, uint32_t>>;

// At most `count` runs, about equal in bytes; none is empty if there is a record.
[[nodiscard]] ManifestRuns split_by_count(const Manifest& list, uint32_t count);

// As few as there may be of packs of no more than `max_bytes`, as far as can be told before;
// a larger record has a run of its own.
[[nodiscard]] ManifestRuns split_by_size(const Manifest& list, uint64_t max_bytes);

}  // namespace ffrfs
