// Where the sidecar of a pack may lie: an index (index_layout.h) in a file of its own.
//
// Not here: making one (tree/index_writer.h).

#pragma once

#include <string>
#include <vector>

#include "io/source_file.h"

namespace ffrfs {

// In the order in which they are looked for: PACK.idx beside the pack; then, if there is a
// place for caches, $XDG_CACHE_HOME/ffrfs/index/<32 digits>.idx, where the digits are of the
// SHA-256 of the pack's real path. XDG_CACHE_HOME is ~/.cache where it is not set; for root
// without a HOME, /var/cache. Nothing of it need exist.
[[nodiscard]] std::vector<std::string> index_sidecar_paths(const std::string& pack);

// Whether a sidecar that was opened at place number `place` of these is to be believed: the
// cache's names are all that says whose it is, so there it must be this user's own.
[[nodiscard]] bool is_trusted_sidecar(const SourceFile& sidecar, size_t place);

}  // namespace ffrfs
