// Makes the sidecar of a packed folder that has no mapped index: the same index, from its
// pickle.
//
// Blocks. Memory: that of the pickle's tree (pickle_tree.h), the pack's header, and what
// write_index() takes.
// Not here: where sidecars lie (record/sidecar_path.h).

#pragma once

#include <string>

#include "stats/counters.h"

namespace ffrfs {

// Writes the file `target`, which appears when it is complete. `chunks`: reads all records
// over 1 MiB, checks them, and writes the checksums of their parts.
// Throws FormatError if `pack` is no packed folder, UnsafeIndexError, ChecksumError,
// StorageError.
void write_sidecar(const std::string& pack, const std::string& target, bool chunks,
                   Counters& counters);

}  // namespace ffrfs
