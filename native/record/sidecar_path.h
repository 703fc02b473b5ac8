// Returns where a pack's sidecar may be: an index (index_layout.h) in a file of its own.
//
// Not here: making one (entries/index_writer.h).

#pragma once

#include <string>
#include <vector>

#include "io/source.h"

namespace ffrfs {

// Returns the paths in the order of search: PACK.idx beside the pack; then, if there is a cache
// directory, the one there (shard/cached_index.h). None of them need exist.
[[nodiscard]] std::vector<std::string> index_sidecar_paths(const std::string& pack);
// The same; only the path in the cache for a remote pack.
[[nodiscard]] std::vector<std::string> index_sidecar_paths(const Source& pack);

}  // namespace ffrfs
