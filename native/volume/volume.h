// A mounted tree: names, attributes and verified bytes. Both engines, PackedFolder and
// the commands that read are its clients.
//
// Any thread. Immutable after opening but for the read path, which guards itself and is
// made anew in the child of a fork().
// Knows nothing of FUSE or Python.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/process_local.h"
#include "record/shard_set.h"
#include "tree/tree.h"
#include "volume/batch_reader.h"
#include "volume/counters.h"
#include "volume/failure_log.h"
#include "volume/file_reads.h"
#include "volume/request_times.h"

namespace ffrfs {

struct VolumeOptions {
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t umask = 0;  // taken from 0444 for files, 0555 for directories
  size_t cache_bytes = size_t{256} << 20;  // all that the read path holds at a time
  bool check_data = true;
  int counters_fd = -1;  // see CounterPage
};

struct Attributes {
  Ino ino = 0;
  uint32_t mode = 0;  // with the type bits
  uint32_t nlink = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t size = 0;
  int64_t mtime_ns = 0;
};

class Volume {
 public:
  // Opens an FFRecord file, a packed folder or a plain one. Throws StorageError,
  // FormatError, UnsafeIndexError, ChecksumError (of the index).
  Volume(const std::string& path, const VolumeOptions& options);

  [[nodiscard]] const Tree& tree() const { return *tree_; }
  [[nodiscard]] const ShardSet& shards() const { return shards_; }
  [[nodiscard]] bool is_folder() const { return is_folder_; }
  [[nodiscard]] uint64_t byte_count() const;  // of all records
  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] RequestTimes& request_times() { return request_times_; }
  [[nodiscard]] FailureLog& failures() { return failures_; }

  // nullopt: no such inode.
  [[nodiscard]] std::optional<Attributes> attributes(Ino ino) const;

  // Throws RangeError unless `ino` is a file.
  [[nodiscard]] Extent extent(Ino ino) const;

  // The inode of "a/b/c", or 0. Empty and "." parts are skipped, ".." is a name that
  // no folder has.
  [[nodiscard]] Ino resolve(std::string_view path) const;

  // As FileReads::read, clipped to the end of the file. Throws RangeError.
  [[nodiscard]] std::optional<Slice> read(Ino ino, uint64_t offset, size_t size,
                                          FileReads::Done done);
  void poll() { reads_.get().poll(); }
  // At most `timeout_ms`; -1: for ever.
  void wait(int timeout_ms) { reads_.get().wait(timeout_ms); }
  // Ends a wait() of another thread, whatever else there is to do.
  void wake() { reads_.get().wake(); }
  [[nodiscard]] int event_fd() { return reads_.get().event_fd(); }

  // For whole records at once.
  [[nodiscard]] BatchReader& batches() { return batches_; }

 private:
  const VolumeOptions options_;
  ShardSet shards_;
  Counters counters_;
  RequestTimes request_times_;  // kept for the engines, as are the failures
  FailureLog failures_;
  bool is_folder_ = false;
  std::unique_ptr<const Tree> tree_;
  BatchReader batches_;
  ProcessLocal<FileReads> reads_;
};

}  // namespace ffrfs
