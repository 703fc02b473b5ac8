// Returns the path of a file's index in this user's cache directory, for an index that cannot, or
// should not, be beside the file; and checks whether the owner of an index is trusted.
//
// Not here: an index's content, and whether it is sound (record, tfrecord).

#pragma once

#include <string>

#include "io/source.h"

namespace ffrfs {

// Returns $XDG_CACHE_HOME/ffrfs/index/<32 digits>.idx, where the digits are of the SHA-256 of the
// real path of `file`. Without XDG_CACHE_HOME the directory is ~/.cache; for root without a HOME,
// /var/cache. None of it need exist. Returns "" if there is no cache directory, or no such file.
[[nodiscard]] std::string cached_index_path(const std::string& file);
// For a remote file the digits are those of its identity.
[[nodiscard]] std::string cached_index_path(const Source& file);

// Returns whether to trust an index of `file`, which is beside it or in the cache. There it must be
// this user's own. Beside a local file any user's is trusted, because a user who can put one there
// can as well put another file there; unless the directory is sticky (/tmp): there it must be this
// user's, root's, or the file owner's.
[[nodiscard]] bool is_trusted_index(const Source& index, const Source& file, bool is_beside);

}  // namespace ffrfs
