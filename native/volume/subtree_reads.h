// The files in the folders of a TFRecord file's records: (inode, offset, size) → verified
// bytes, at once or later.
//
//   a part of the record, as it is ──► FileReads: a span of the record's own unit
//   .npy, example.json ──────────────► made of the record, kept until it was read
//
// Any thread. Callbacks run in poll() of the FileReads that this stands on.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "example/example_folder.h"
#include "example/example_tree.h"
#include "prefetch/hint.h"
#include "prefetch/store_gate.h"
#include "shard/shard_set.h"
#include "stats/counters.h"
#include "volume/file_reads.h"
#include "volume/folder_cache.h"

namespace ffrfs {

class ExampleReads {
 public:
  ExampleReads(const ShardSet& shards, const ExampleTree& tree, FileReads& reads,
               Counters& counters, const ExampleOptions& options);

  [[nodiscard]] FolderCache& folders() { return folders_; }

  // As FileReads::read, clipped to the end of the file. Throws RangeError;
  // TooLargeError for a file that is made.
  [[nodiscard]] std::optional<Slice> read(Ino ino, uint64_t offset, size_t size,
                                          FileReads::Done done);

  // Gives the kernel what it may know of a record that was read ahead: the files of its
  // features, the first kPushedFilesMax. False: it has taken none, or the hint is for
  // another file.
  [[nodiscard]] bool push(const Hint& hint, const UnitPtr& record, const PageStore& push);

 private:
  static constexpr size_t kPushedFilesMax = 64;
  struct Range {
    uint64_t offset;
    size_t size;
  };

  [[nodiscard]] std::optional<Slice> read_in(const FolderPtr& folder, Ino ino, Range range,
                                             FileReads::Done done);
  [[nodiscard]] std::optional<Slice> read_made(const FolderPtr& folder, Ino ino, Range range,
                                               FileReads::Done done);
  [[nodiscard]] bool render(const FolderPtr& folder, const FileSource& source,
                            const Extent& extent, std::shared_ptr<UnitPtr> made,
                            std::function<void(std::exception_ptr)> done);
  [[nodiscard]] Slice take(const UnitKey& key, const UnitPtr& made, Range range);

  const ShardSet& shards_;
  FileReads& reads_;
  Counters& counters_;
  FolderCache folders_;
};

}  // namespace ffrfs
