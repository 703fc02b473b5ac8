// The sidecar of a TFRecord file: its index, as text in a file beside it, or in the cache.
//
//   "0 110016\n"            where a frame begins, and its size with the 16 bytes of
//   "110016 98044\n" ...    framing, in decimal; a line per record
//
// The format of DALI's and of the PyPI package's tfrecord2idx.
// Not here: writing it (ffrfs/tfrecord/sidecar.py).

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/source.h"

namespace ffrfs {

// Where sidecars of the file `path` are looked for, in that order: x.tfrecord.idx,
// x.tfrecord.tfindex, x.idx, x.tfindex. Then in the cache (shard/cached_index.h).
[[nodiscard]] std::vector<std::string> sidecar_paths(const std::string& path);

// Where each frame of `file` begins, and its end, from the first sidecar that is sound;
// empty if there is none. Sound: not older than the file; its lines are frames without a
// gap from the file's beginning to its end; and some of the frames, the first and the
// last among them, are found there, with that length. Whatever a sidecar holds, it costs
// at most one number per 16 bytes of the file. Throws StorageError if `file` cannot be
// read; a sidecar that cannot be is none, nor is another user's in the cache.
[[nodiscard]] std::vector<uint64_t> read_sidecar(const Source& file);

// The sidecar's lines for the frames between `offsets` (one less than there are offsets).
[[nodiscard]] std::string sidecar_text(std::span<const uint64_t> offsets);

}  // namespace ffrfs
