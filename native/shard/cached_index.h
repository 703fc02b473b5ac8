// Where the index of a file lies if it cannot, or should not, lie beside it: among the caches of
// this user.
//
// Not here: what an index holds, and whether it is sound (record, tfrecord).

#pragma once

#include <string>

#include "io/source.h"

namespace ffrfs {

// $XDG_CACHE_HOME/ffrfs/index/<32 digits>.idx, where the digits are of the SHA-256 of the real
// path of `file`. XDG_CACHE_HOME is ~/.cache where it is not set; for root without a HOME,
// /var/cache. Nothing of it need exist. "": there is no place for caches, or no such file.
[[nodiscard]] std::string cached_index_path(const std::string& file);
// Of what is far away the digits are of its identity.
[[nodiscard]] std::string cached_index_path(const Source& file);

// The cache's names are all that says whose an index is, so there it must be this user's own.
[[nodiscard]] bool is_own(const Source& index);

}  // namespace ffrfs
