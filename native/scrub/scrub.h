// Reads every record and compares its checksum, in bounded memory.
//
//   records   [ 7 ][ 8 ][ 9 ............... ][ 10 ][ 11 ]   as they lie in their file
//   runs      [ one ................................. ]     4 MiB or more, taken by a thread
//   windows   [ 256 KiB ][ 256 KiB ][ 256 KiB ]...          read into memory that stays in
//                                                           the core's own cache
//
// Records that the page cache does not hold are read afterwards, from storage: in batches, large
// records piece by piece.
//
// Blocks, and runs threads of its own meanwhile.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fetch/fetcher.h"
#include "io/error.h"

namespace ffrfs {

// Returns an index's CRC-32C of each 1 MiB of a record; empty if it has none. Called on several
// threads at once; must not throw.
using ExpectedChunks = std::function<std::vector<uint32_t>(uint64_t record)>;

// (record, error), ascending.
using BadRecords = std::vector<std::pair<uint64_t, ErrorFields>>;

// Returns the bad ones of `count` records from `first`. `jobs`: the most threads; 0: as many as
// there are cores. Also compares `chunks`, if given. Throws RangeError.
[[nodiscard]] BadRecords scrub_records(Fetcher& fetcher, uint64_t first, uint64_t count,
                                       size_t jobs = 0, const ExpectedChunks& chunks = nullptr);

}  // namespace ffrfs
