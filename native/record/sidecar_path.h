// Where the sidecar of a pack may lie: an index (index_layout.h) in a file of its own.
//
// Not here: making one (manifest/index_writer.h).

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

// Whether a sidecar of `pack` that was opened at place number `place` of these is to be
// believed. The cache's names are all that says whose it is, so there it must be this user's
// own. Beside the pack anybody's is, as who may put one there may as well put another pack
// there; but not where the folder is sticky (/tmp): there it must be this user's, root's, or
// of the pack's owner.
[[nodiscard]] bool is_trusted_sidecar(const SourceFile& sidecar, const SourceFile& pack,
                                      size_t place);

}  // namespace ffrfs
