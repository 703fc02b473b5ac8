// One TFRecord file, opened for reading: where each record lies.
//
//   frames    [ 0 ............ ][ 1 .. ][ 2 ......... ]     contiguous, so that the
//   offsets   0                 a       b             size  beginnings tell the ends too
//
// Immutable after opening: any number of threads.
// Not here: frames (framing.h), the text beside the file (sidecar.h), the records'
// bytes and the check of their checksums (volume).

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "remote/remote_opener.h"
#include "shard/shard.h"
#include "shard/shard_set.h"

namespace ffrfs {

class TfrecordShard final : public Shard {
 public:
  // Takes the offsets from a sound sidecar, if there is one and `use_sidecar`, else hops
  // over the file. Throws StorageError (open, read), TruncatedError, FormatError (not
  // frames; or compressed, which it says).
  explicit TfrecordShard(std::unique_ptr<const Source> file, bool use_sidecar = true);

  [[nodiscard]] uint64_t count() const override { return offsets_.size() - 1; }
  [[nodiscard]] Extent extent(uint64_t record) const override;
  [[nodiscard]] uint64_t byte_count() const override;

  // count() + 1 values: where each frame begins, and the end of the file.
  [[nodiscard]] std::span<const uint64_t> offsets() const { return offsets_; }
  [[nodiscard]] bool used_sidecar() const { return used_sidecar_; }

 private:
  bool used_sidecar_ = false;
  std::vector<uint64_t> offsets_;
};

// True if `begin`, a file's first bytes, is how a gzip stream begins.
[[nodiscard]] bool is_gzip(std::span<const std::byte> begin);

// TFRecord files as one index space, several opened at a time, as each waits for its
// disk. Throws what TfrecordShard throws, for the first bad file; FormatError if `paths`
// is empty.
[[nodiscard]] ShardSet open_tfrecord_shards(const std::vector<std::string>& paths,
                                            bool use_sidecars = true,
                                            const OpenSource& open = remote::open_source);

}  // namespace ffrfs
