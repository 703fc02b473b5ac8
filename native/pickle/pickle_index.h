// The index of a packed folder as the reference writer leaves it: a pickle, which is a
// program for a small stack machine. Read here without running it: this machine knows
// nested collections.OrderedDict of str to int, in every spelling that CPython's pickle
// module writes (protocols 0 to 5, pickletools.optimize), and refuses all else by name.
//
// Bounded whatever the bytes are: the stack by the depth that a tree may have, memo and
// tables by what the bytes really hold, no recursion.
//
// Not here: the nine bytes in front of the pickle, the record's checksum (volume).

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tree/byte_source.h"
#include "tree/pickle_tree.h"

namespace ffrfs {

// `source` begins with the pickle and is read to its end, also past STOP, where bytes of
// another meaning may follow. The last of the file's `record_count` records is the index
// itself: no name may lead there. `file` is for messages.
//
// Throws FormatError, UnsafeIndexError (the pickle would run code), and what the source
// throws; after an error the source has not been read to its end.
[[nodiscard]] std::unique_ptr<PickleTree> read_pickle_index(ByteSource& source,
                                                            uint64_t record_count,
                                                            const std::string& file);

}  // namespace ffrfs
