// Where the sidecar of a pack may lie: an index (index_layout.h) in a file of its own.
//
// Not here: making one (manifest/index_writer.h).

#pragma once

#include <string>
#include <vector>

#include "io/source.h"

namespace ffrfs {

// In the order in which they are looked for: PACK.idx beside the pack; then, if there is a
// place for caches, the one there (shard/cached_index.h). Nothing of it need exist.
[[nodiscard]] std::vector<std::string> index_sidecar_paths(const std::string& pack);
// Of a pack that is far away the one in the cache alone.
[[nodiscard]] std::vector<std::string> index_sidecar_paths(const Source& pack);

// Whether a sidecar of `pack` that was opened at place number `place` of these is to be believed.
// In the cache it must be this user's own. Beside the pack it may be any user's: a user who can
// put a file there can as well put another pack there. Not where the directory is sticky (/tmp):
// there it must be this user's, root's, or of the pack's owner.
[[nodiscard]] bool is_trusted_sidecar(const Source& sidecar, const Source& pack, size_t place);

}  // namespace ffrfs
