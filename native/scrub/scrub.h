// Reads every record and compares its checksum, in bounded memory.
//
//   records   [ 7 ][ 8 ][ 9 ............... ][ 10 ][ 11 ]   as they lie in their file
//   runs      [ one ................................. ]     4 MiB or more, taken by a thread
//   windows   [ 256 KiB ][ 256 KiB ][ 256 KiB ]...          read into memory that stays in
//                                                           the core's own cache
//
// What the page cache does not hold is left over, and read from storage in batches, large
// records piece by piece.
//
// Blocks, and has threads of its own for as long as it does.

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

// What an index says of a record's bytes, CRC-32C of each 1 MiB; empty: nothing. Called on
// several threads at once; must not throw.
using ExpectedChunks = std::function<std::vector<uint32_t>(uint64_t record)>;

// (record, what is wrong with it), ascending.
using BadRecords = std::vector<std::pair<uint64_t, ErrorFields>>;

// Of `count` records from `first`, the bad ones.
// `jobs`: threads at most; 0: as many as there are cores. `chunks`, if given, are checked as
// well. Throws RangeError.
[[nodiscard]] BadRecords scrub_records(Fetcher& fetcher, uint64_t first, uint64_t count,
                                        size_t jobs = 0, const ExpectedChunks& chunks = nullptr);

}  // namespace ffrfs
