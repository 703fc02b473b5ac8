// The files in the folders of a TFRecord file's records: (inode, offset, size) → verified
// bytes, at once or later.
//
//   a part of the record, as it is ──► FileReads: a span of the record's own block
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

#include "shard/shard_set.h"
#include "tree/example_folder.h"
#include "tree/example_tree.h"
#include "volume/counters.h"
#include "volume/file_reads.h"
#include "volume/folder_cache.h"
#include "volume/hint.h"
#include "volume/push_gate.h"

namespace ffrfs {

class ExampleReads {
 public:
  // `limit_bytes`: what the mount may hold at a time, of which the folders take a share.
  ExampleReads(const ShardSet& shards, const ExampleTree& tree, FileReads& reads,
               Counters& counters, const ExampleOptions& options, size_t limit_bytes);

  [[nodiscard]] FolderCache& folders() { return folders_; }
  // As Volume::limit_cache(), of what is held here.
  void limit_cache(size_t limit_bytes);

  // As FileReads::read, clipped to the end of the file. Throws RangeError; StorageError
  // (EFBIG) for a file that is made and too large to be held.
  [[nodiscard]] std::optional<Slice> read(Ino ino, uint64_t offset, size_t size,
                                          FileReads::Done done);

  // Gives the kernel what it may know of a record that was read ahead: the files of its
  // features, the first kPushedFilesMax. False: it has taken none, or the hint is for
  // another file.
  [[nodiscard]] bool push(const Hint& hint, const BlockPtr& record, const PagePush& push);

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
                            const Extent& extent, std::shared_ptr<BlockPtr> made,
                            std::function<void(std::exception_ptr)> done);
  [[nodiscard]] Slice take(const BlockKey& key, const BlockPtr& made, Range range);

  const ShardSet& shards_;
  FileReads& reads_;
  Counters& counters_;
  FolderCache folders_;
};

}  // namespace ffrfs
