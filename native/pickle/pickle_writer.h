// The index of a packed folder as the reference reads it: a pickle of protocol 4, of nested
// collections.OrderedDict, name → record number, or → the OrderedDict of a folder.
//
// Byte for byte what pickle.dumps(tree, 4) makes of the reference's dicts (CPython's C
// pickler: memo numbers, batches of 1000 items, frames of 64 KiB), but from any depth of
// folders, where pickle's own recursion ends near 300, and without building those dicts.
// Opcodes: https://github.com/python/cpython/blob/main/Lib/pickletools.py
//
// Symbolic links have no place in it, and are left out.
// Not here: the bytes in front of it (kFolderMagic), reading it (pickle_index.h).

#pragma once

#include "tree/byte_sink.h"
#include "tree/index_entries.h"

namespace ffrfs {

// Depth first; a folder's entries in the order of the source. Memory: a few words for each
// folder on the way, and a frame. Throws what `sink` throws.
void write_pickle(const IndexEntries& source, const ByteSink& sink);

}  // namespace ffrfs
