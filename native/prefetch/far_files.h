// Files whose bytes may be far away (io/source.h): what will be read ahead in a while is asked for
// well before, many ranges at once, so that reading ahead finds it near.
//
// Any thread, without a lock of the caller's: it may wait for an index.

#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "prefetch/hint.h"
#include "shard/shard_set.h"

namespace ffrfs {

// nullopt: the index is damaged there, which is for those to hear who read the record; or it is
// far away, and this thread does not wait for it (NearOnly).
[[nodiscard]] std::optional<Extent> find_extent(const ShardSet& shards, uint64_t record);

class FarFiles {
 public:
  // Of one list of hints: so much behind what was taken is on its way.
  static constexpr uint64_t kAheadBytes = uint64_t{64} << 20;

  explicit FarFiles(const ShardSet& shards);

  [[nodiscard]] bool any() const { return any_; }
  // Asks for what is not near.
  void ask_for(std::span<const uint64_t> records) const;
  // Brings near what the index says of them, so that others need not wait for it.
  void find(std::span<const Hint> hints) const;

 private:
  const ShardSet& shards_;
  const bool any_;
};

}  // namespace ffrfs
