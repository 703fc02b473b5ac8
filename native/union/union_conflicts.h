// What several parts of a union have, and cannot be merged: files and links.

#pragma once

#include "union/union_directories.h"
#include "union/union_part.h"

namespace ffrfs {

// Throws FormatError at the first conflict, naming the path and both packs, and what the
// parts throw. Compares names where the lists of a shared directory overlap; those of
// shards of one set cannot have a name in common, and are not looked at.
void refuse_conflicts(const UnionParts& parts, const UnionDirectories& directories);

}  // namespace ffrfs
