// Writes the index of a packed directory for the reference implementation: a pickle of protocol 4,
// of nested collections.OrderedDict, name → record number, or → the OrderedDict of a directory.
//
// The result has the same bytes as pickle.dumps(tree, 4) of the reference's dicts (CPython's C
// pickler: memo numbers, batches of 1000 items, frames of 64 KiB), but works for any depth of
// directories, where pickle's own recursion ends near 300, and without building those dicts.
// Opcodes: https://github.com/python/cpython/blob/main/Lib/pickletools.py
//
// Symbolic links cannot be represented, and are left out.
// Not here: the bytes before the pickle (kFolderMagic), reading it (pickle_index.h).

#pragma once

#include "tree/byte_sink.h"
#include "tree/index_entries.h"

namespace ffrfs {

// Depth first; a directory's entries in the order of the source. Takes a few words of memory for
// each open directory, and a frame. Throws the errors of `sink`.
void write_pickle(const IndexEntries& source, const ByteSink& sink);

}  // namespace ffrfs
