// One TFRecord file, opened for reading: the extent of each record.
//
//   frames    [ 0 ............ ][ 1 .. ][ 2 ......... ]     contiguous, so that each frame
//   offsets   0                 a       b             size  ends where the next one begins
//
// Immutable after opening, and thread-safe.
// Not here: frames (framing.h), the text beside the file (sidecar.h), the records' bytes and the
// check of their checksums (fetch).

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
  // Takes the offsets from a sound sidecar, if there is one and `use_sidecar`; otherwise hops over
  // the file. Throws StorageError (open, read), TruncatedError, FormatError (not frames; or
  // compressed, which the text says).
  explicit TfrecordShard(std::unique_ptr<const Source> file, bool use_sidecar = true);

  [[nodiscard]] uint64_t count() const override { return offsets_.size() - 1; }
  [[nodiscard]] Extent extent(uint64_t record) const override;
  [[nodiscard]] uint64_t byte_count() const override;

  // Returns count() + 1 values: where each frame begins, and the end of the file.
  [[nodiscard]] std::span<const uint64_t> offsets() const { return offsets_; }
  [[nodiscard]] bool used_sidecar() const { return used_sidecar_; }

 private:
  bool used_sidecar_ = false;
  std::vector<uint64_t> offsets_;
};

// Returns whether `begin`, a file's first bytes, is the beginning of a gzip stream.
[[nodiscard]] bool is_gzip(std::span<const std::byte> begin);

// Opens TFRecord files as one index space, several at a time, because each waits for its disk.
// Throws what TfrecordShard throws, for the first bad file; FormatError if `paths` is empty.
[[nodiscard]] ShardSet open_tfrecord_shards(const std::vector<std::string>& paths,
                                            bool use_sidecars = true,
                                            const OpenSource& open = remote::open_source);

}  // namespace ffrfs
