// The sidecar of a TFRecord file: its index as text, in a file beside it or in the cache.
//
//   "0 110016\n"            where a frame begins, and its size with the 16 bytes of
//   "110016 98044\n" ...    framing, in decimal; a line per record
//
// DALI's tfrecord2idx and the PyPI package's write the same format.
// Not here: writing it (ffrfs/tfrecord/sidecar.py).

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/source.h"

namespace ffrfs {

// Returns where sidecars of the file `path` may be, in the order of search: x.tfrecord.idx,
// x.tfrecord.tfindex, x.idx, x.tfindex. The cache comes after them (shard/cached_index.h).
[[nodiscard]] std::vector<std::string> sidecar_paths(const std::string& path);

// Returns where each frame of `file` begins, and its end, from the first sound sidecar; empty if
// there is none. A sidecar is sound if it is not older than the file; its lines are frames without
// a gap from the file's beginning to its end; and sampled frames, including the first and the last,
// are in the file with that length. Whatever a sidecar holds, it takes at most one number per 16
// bytes of the file. Throws StorageError if `file` cannot be read; ignores sidecars that cannot be
// read, and those that are not to be trusted (shard/cached_index.h).
[[nodiscard]] std::vector<uint64_t> read_sidecar(const Source& file);

// Returns the sidecar's lines for the frames between `offsets` (one fewer than offsets).
[[nodiscard]] std::string sidecar_text(std::span<const uint64_t> offsets);

}  // namespace ffrfs
