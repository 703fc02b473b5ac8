// Makes the sidecar of a pack that has no mapped index, from its pickle.
//
// Blocks. Takes the memory of the pickle's tree (pickle_tree.h), of the pack's header, and of
// write_index().
// Not here: where sidecars are (record/sidecar_path.h).

#pragma once

#include <string>

#include "stats/counters.h"

namespace ffrfs {

// Writes the file `target`, which appears when it is complete. `chunks`: also reads all records
// over 1 MiB, verifies them, and writes the checksums of their parts. Throws FormatError if `pack`
// is not a pack, UnsafeIndexError, ChecksumError, StorageError.
void write_sidecar(const std::string& pack, const std::string& target, bool chunks,
                   Counters& counters);

}  // namespace ffrfs
