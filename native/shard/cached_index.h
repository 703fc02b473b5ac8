// The path of a file's index if it cannot, or should not, be beside the file: in this user's cache
// folder.
//
// Not here: an index's content, and whether it is sound (record, tfrecord).

#pragma once

#include <string>

#include "io/source.h"

namespace ffrfs {

// Returns $XDG_CACHE_HOME/ffrfs/index/<32 digits>.idx, where the digits are of the SHA-256 of the
// real path of `file`. Without XDG_CACHE_HOME the folder is ~/.cache; for root without a HOME,
// /var/cache. None of it need exist. Returns "" if there is no cache folder, or no such file.
[[nodiscard]] std::string cached_index_path(const std::string& file);
// For a remote file the digits are those of its identity.
[[nodiscard]] std::string cached_index_path(const Source& file);

// Anybody may have put an index under that name, so an index in the cache must be this user's own.
[[nodiscard]] bool is_own(const Source& index);

}  // namespace ffrfs
