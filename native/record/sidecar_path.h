// Where a pack's sidecar may be: an index (index_layout.h) in a file of its own.
//
// Not here: making one (entries/index_writer.h).

#pragma once

#include <string>
#include <vector>

#include "io/source.h"

namespace ffrfs {

// Returns the paths in the order of search: PACK.idx beside the pack; then, if there is a cache
// folder, the one there (shard/cached_index.h). None of them need exist.
[[nodiscard]] std::vector<std::string> index_sidecar_paths(const std::string& pack);
// The same; only the path in the cache for a remote pack.
[[nodiscard]] std::vector<std::string> index_sidecar_paths(const Source& pack);

// Returns whether to trust a sidecar of `pack` that was opened at path number `place` of these. In
// the cache it must be this user's own. Beside the pack any user's is trusted, because a user who
// can put a file there can as well put another pack there; unless the directory is sticky (/tmp):
// there it must be this user's, root's, or the pack owner's.
[[nodiscard]] bool is_trusted_sidecar(const Source& sidecar, const Source& pack, size_t place);

}  // namespace ffrfs
