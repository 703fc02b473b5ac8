// The last record of a packed directory: magic and pickle for the reference implementation, zeros
// up to a multiple of 4096 in the file, and the mapped index.

#pragma once

#include <cstdint>
#include <optional>

#include "record/index_layout.h"
#include "record/writer.h"
#include "tree/index_entries.h"

namespace ffrfs {

// `source` has exactly the records that have been written. `set`: if the pack is a shard. Throws
// what Writer::append_last() and write_index() throw.
void append_index_record(Writer& writer, const IndexEntries& source,
                         const std::optional<IndexSet>& set);

}  // namespace ffrfs
