// Finds names that several parts of a union have and that cannot be merged: files and links.

#pragma once

#include "union/union_directories.h"
#include "union/union_part.h"

namespace ffrfs {

// Throws FormatError at the first conflict, naming the path and both packs, and the errors of the
// parts. Compares names where the lists of a shared directory overlap; skips shards of one set,
// which cannot have a name in common.
void refuse_conflicts(const UnionParts& parts, const UnionDirectories& directories);

}  // namespace ffrfs
