// Reads files in directories that are inside records (tree/subtrees.h): (inode, offset, size) →
// verified bytes, at once or later.
//
//   a part of the record, as it is ──► FileReads: a span of the record's own unit
//   rendered (.npy, example.json) ───► made from the record, kept until it was read
//
// Thread-safe. Callbacks run in poll() of the FileReads below.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "prefetch/hint.h"
#include "prefetch/push_gate.h"
#include "shard/shard_set.h"
#include "stats/counters.h"
#include "tree/subtrees.h"
#include "volume/file_reads.h"
#include "volume/subtree_cache.h"

namespace ffrfs {

class SubtreeReads {
 public:
  SubtreeReads(const ShardSet& shards, const Subtrees& subtrees, FileReads& reads,
               Counters& counters);

  [[nodiscard]] SubtreeCache& trees() { return trees_; }

  // The same as FileReads::read, clipped to the end of the file. Throws RangeError; TooLargeError
  // for a rendered file.
  [[nodiscard]] std::optional<Slice> read(Ino ino, uint64_t offset, size_t size,
                                          FileReads::Done done);

  // Pushes files of a record that was read ahead to the kernel: those of its features, the first
  // kPushedFilesMax. Returns false if the kernel took none, or if the hint is for another file.
  [[nodiscard]] bool push(const Hint& hint, std::span<const std::byte> record,
                          const PushPages& push);

 private:
  static constexpr size_t kPushedFilesMax = 64;
  struct Range {
    uint64_t offset;
    size_t size;
  };

  [[nodiscard]] std::optional<Slice> read_in(const TreePtr& tree, Ino ino, Range range,
                                             FileReads::Done done);
  [[nodiscard]] std::optional<Slice> read_made(const TreePtr& tree, Ino ino,
                                               const Contents& contents, Range range,
                                               FileReads::Done done);
  [[nodiscard]] bool render(const TreePtr& tree, Ino ino, const Contents& contents,
                            std::shared_ptr<UnitPtr> made,
                            std::function<void(std::exception_ptr)> done);
  [[nodiscard]] Slice take(const UnitKey& key, const UnitPtr& made, Range range);

  const ShardSet& shards_;
  const Subtrees& subtrees_;
  FileReads& reads_;
  Counters& counters_;
  SubtreeCache trees_;
};

}  // namespace ffrfs
