// Packs that may be remote (io/source.h): requests the ranges that will soon be read ahead, many at
// once, so that they are near by then.
//
// Thread-safe. The caller must not hold a lock, because a call may wait for an index.

#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "prefetch/hint.h"
#include "prefetch/read_around.h"
#include "shard/shard_set.h"

namespace ffrfs {

// Returns nullopt if the index is damaged there (the record's readers get the error), or if it is
// far and this thread must not wait (NearOnly).
[[nodiscard]] std::optional<Extent> find_extent(const ShardSet& shards, uint64_t record);

class FarFiles {
 public:
  // How many bytes of a list of hints are requested before they are taken.
  static constexpr uint64_t kAheadBytes = uint64_t{128} << 20;

  explicit FarFiles(const ShardSet& shards);

  [[nodiscard]] bool any() const { return any_; }
  // Requests the records' bytes that are far.
  void ask_for(std::span<const uint64_t> records) const;
  // Requests more of a pack of which half was needed in no order (ReadAround::take_rest), if all of
  // it takes at most `blocks_max` MiB of the cache.
  void ask_for_rest(ReadAround& around, size_t blocks_max) const;
  // Loads the index entries of the records, also from a local disk, so that later look-ups need
  // not wait.
  void find(std::span<const Hint> hints) const;

 private:
  const ShardSet& shards_;
  const bool any_;
};

}  // namespace ffrfs
