// Reads the index of a packed directory that the reference implementation writes: a pickle, which
// is a program for a small stack machine. It is not run: this machine accepts only nested
// collections.OrderedDict of str to int, in every spelling that CPython's pickle module writes
// (protocols 0 to 5, pickletools.optimize), and refuses all other opcodes by name.
//
// Memory is bounded for any input: the stack by the depth that a tree may have, memo and tables by
// the content of the bytes; no recursion.
//
// Not here: the nine bytes before the pickle, the record's checksum (open).

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tree/byte_source.h"
#include "tree/pickle_tree.h"

namespace ffrfs {

// `source` begins with the pickle and is read to its end, even past STOP, where bytes of another
// meaning may follow. The last of the file's `record_count` records is the index itself: no name
// may refer to it. `file` is for messages.
//
// Throws FormatError, UnsafeIndexError (the pickle would run code), and the errors of the source;
// after an error the source has not been read to its end.
[[nodiscard]] std::unique_ptr<PickleTree> read_pickle_index(ByteSource& source,
                                                            uint64_t record_count,
                                                            const std::string& file);

}  // namespace ffrfs
