// A mounted tree: names, attributes and verified bytes. Its clients are both engines, PackedFolder
// and the commands that read.
//
// If records hold directories of their own (tree/subtrees.h), the tree comes in parts: tree(),
// which is computed, and for each record a part that is made from its bytes, which may have to be
// read (load_tree()). Otherwise tree() is all of it.
//
// Thread-safe. Immutable after opening except for the read path, which locks itself and is created
// again in the child of a fork(). Knows nothing of FUSE or Python. For blocking calls see
// blocking_volume.h.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fetch/fetcher.h"
#include "io/file_descriptor.h"
#include "io/process_local.h"
#include "open/open_packs.h"
#include "prefetch/hint.h"
#include "prefetch/hint_server.h"
#include "prefetch/prefetcher.h"
#include "prefetch/push_gate.h"
#include "shard/shard_set.h"
#include "stats/counters.h"
#include "stats/coverage.h"
#include "stats/request_times.h"
#include "tree/tree.h"
#include "volume/failure_log.h"
#include "volume/file_reads.h"
#include "volume/subtree_reads.h"
#include "volume/volume_options.h"

namespace ffrfs {

struct Attributes {
  Ino ino = 0;
  uint32_t mode = 0;  // with the type bits
  uint32_t nlink = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t size = 0;
  int64_t mtime_ns = 0;
};

// The facts of an inode that a caller needs: its attributes, or its directory entries.
enum class Need { kInode, kEntries };

using TreeDone = std::function<void(TreePtr, std::exception_ptr)>;

class Volume {
 public:
  // Opens `paths` (see open_packs()). Throws StorageError, FormatError, UnsafeIndexError,
  // ChecksumError (of the index).
  Volume(const std::vector<std::string>& paths, const VolumeOptions& options);

  // Its methods may throw the errors of a mapped index (see Tree).
  [[nodiscard]] const Tree& tree() const { return *packs_.opened.tree; }
  [[nodiscard]] const ShardSet& shards() const { return packs_.shards; }
  [[nodiscard]] TreeKind kind() const { return packs_.opened.kind; }
  [[nodiscard]] bool has_subtrees() const { return subtrees_ != nullptr; }
  // Returns a line for each thing that was left out at opening.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return packs_.warnings; }
  [[nodiscard]] uint64_t byte_count() const { return shards().byte_count(); }
  // Returns a text that identifies the opened files of a shard. If those of all shards are equal,
  // another volume of the same options has the same inodes and bytes.
  [[nodiscard]] std::string identity(size_t shard) const;
  [[nodiscard]] Counters& counters() { return counters_; }

  // Counts a request that an engine has answered. Returns whether it was so slow that it should be
  // logged.
  [[nodiscard]] bool note_request(RequestKind kind, uint64_t elapsed_ns) {
    request_times_.add(kind, elapsed_ns);
    return elapsed_ns >= RequestTimes::kSlowNs;
  }
  // Returns the line for the log: "slow read: 1530 ms for a/b.jpg, from /data/x.ffr". May wait for
  // the disk or server that has the index.
  [[nodiscard]] std::string describe_slow(RequestKind kind, Ino ino, uint64_t elapsed_ns);

  // Returns the part of the tree with what `need` says of `ino`; nullptr if not at hand.
  [[nodiscard]] TreePtr find_tree(Need need, Ino ino) {
    const auto record = subtree_for(need, ino);
    // Does not own tree(), which lives as long as the volume: no reference count.
    return record ? subtree_reads_.get().trees().find(*record) : TreePtr(TreePtr(), &tree());
  }
  // The same, but makes the part if it is not at hand. Returns nullptr if it will come through
  // `done`, in poll(). Never waits for the disk. Throws ChecksumError.
  [[nodiscard]] TreePtr load_tree(Need need, Ino ino, TreeDone done);

  // Returns nullopt if the inode does not exist. `part` is the part that has `ino`; any part if
  // tree() has it. Like the functions below, throws as Tree and Shard::extent() do if the index is
  // damaged.
  [[nodiscard]] std::optional<Attributes> attributes(const Tree& part, Ino ino) const;

  // The same for entries that `part` has just listed, with less time for each.
  [[nodiscard]] std::vector<Attributes> attributes(const Tree& part,
                                                   std::span<const Dentry> entries) const;

  // Returns the path, as far as it is at hand: for a file in a record's directory perhaps only
  // that of the directory. Returns "inode 7" if the index is damaged.
  [[nodiscard]] std::string path(Ino ino);
  // Returns the shard that the inode is from.
  [[nodiscard]] size_t shard_of(Ino ino) const;

  // Counts a request on `ino` that has failed for want of bytes. If it should be logged, returns
  // the inode that it counts for: all files of a record's directory count as one.
  [[nodiscard]] std::optional<Ino> note_failure(Ino ino);

  // Returns the extent of a file that is a whole record. Throws RangeError.
  [[nodiscard]] Extent extent(Ino ino) const;
  // Returns the CRC-32 of a whole file, if the pack has it.
  [[nodiscard]] std::optional<uint32_t> stored_crc32(const Contents& contents) const;

  // Reads a whole file that is in the page cache into `target`, as FileReads::read_now() does. If
  // size and extent are empty, the file is not read in one piece: call read(). Throws as read()
  // does.
  [[nodiscard]] FileReads::AtOnce read_now(Ino ino, uint64_t offset, size_t size,
                                           std::span<std::byte> target);
  void read_missing(const Extent& extent, FileReads::Done done) {
    reads_.get().read_missing(extent, std::move(done));
  }
  // The same as FileReads::read, clipped to the end of the file. Throws RangeError.
  [[nodiscard]] std::optional<Slice> read(Ino ino, uint64_t offset, size_t size,
                                          FileReads::Done done,
                                          FileReads::Shape shape = FileReads::Shape::kOnePiece);
  void poll() { reads_.get().poll(); }
  // Waits at most `timeout_ms`; -1: for ever.
  void wait(int timeout_ms) { reads_.get().wait(timeout_ms); }
  // For one of many threads that wait; see EventTurns::wait().
  void take_turn(const std::function<bool()>& is_ready, int timeout_ms) {
    reads_.get().take_turn(is_ready, timeout_ms);
  }
  // Ends a wait() of another thread, even if there is nothing to do.
  void wake() { reads_.get().wake(); }
  [[nodiscard]] int event_fd() { return reads_.get().event_fd(); }

  // For reading whole records at once.
  [[nodiscard]] Fetcher& fetcher() { return reads_.get().fetcher(); }

  // Limits the memory of the read path from now on, in place of VolumeOptions::cache_bytes. Bytes
  // that were read ahead, kept, or freed for reuse are dropped at once beyond the limit; reads in
  // flight continue for their waiters. The largest readable file still depends on cache_bytes.
  // Thread-safe, one call at a time; may take milliseconds.
  void limit_cache(size_t limit_bytes);

  // Limits the bytes that ReadAround has pushed into the kernel's page cache and that were not read
  // yet; the limit is 0 before the first call. Thread-safe.
  void limit_pushed(uint64_t limit_bytes);

  // Pushes all files at and below `ino` that the kernel knows. Never waits.
  void warm(Ino ino) {
    if (prefetcher_) prefetcher_->warm(ino);
  }

  // Starts readahead, for an engine; before the first request, and not after a fork(). `push`
  // stores bytes of a file in the kernel's page cache, and returns false if the kernel does not
  // know that inode, or does not want them. Called on the volume's threads; must not throw.
  void start_prefetch(PushPages push);
  // Ends readahead: no push starts any more. Waits at most `limit` for one that is under way;
  // returns false if it still is.
  bool stop_prefetch(std::chrono::milliseconds limit);
  // Takes a client that sends hints (hint_server.h). Needs start_prefetch().
  void take_hints(FileDescriptor client);
  // Resolves a client's text: "/a/b.jpg", or a record number. Returns nullopt if there is no such
  // file, or if the index is damaged there.
  [[nodiscard]] std::optional<Hint> hint(std::string_view text) const;

 private:
  [[nodiscard]] bool push(const PushPages& push, const Hint& hint,
                          std::span<const std::byte> record);
  // Returns the record whose directory `ino` is, or is in.
  [[nodiscard]] std::optional<uint64_t> subtree_of(Ino ino) const {
    return subtrees_ != nullptr ? subtrees_->record_of(ino) : std::nullopt;
  }
  // Returns nullopt if tree() has what `need` says of `ino`.
  [[nodiscard]] std::optional<uint64_t> subtree_for(Need need, Ino ino) const {
    const auto record = subtree_of(ino);
    return record && need == Need::kInode && ino == subtrees_->top(*record) ? std::nullopt : record;
  }
  // Tells the prefetcher that the kernel learns the inode.
  void note_known(Ino ino, const Inode& inode) const;
  void leave_out_indexes();
  // `size` is the record's, for a file that has no size of its own.
  [[nodiscard]] Attributes to_attributes(Ino ino, const Inode& inode, uint64_t size) const;
  [[nodiscard]] static bool has_size_of_record(const Inode& inode) {
    return inode.is_file() && !inode.size;
  }
  [[nodiscard]] uint32_t permissions(const Inode& inode, uint32_t unknown) const;

  const VolumeOptions options_;
  Counters counters_;
  const OpenedPacks packs_;
  const Subtrees* const subtrees_;  // of the tree; nullptr: it has none
  RequestTimes request_times_;  // like failures_, filled by the engines
  FailureLog failures_{counters_.page()};
  ProcessLocal<FileReads> reads_;
  ProcessLocal<SubtreeReads> subtree_reads_;  // over reads_; only if there are subtrees_
  Coverage coverage_;
  PushGate push_gate_;
  std::unique_ptr<Prefetcher> prefetcher_;
  std::unique_ptr<HintServer> hint_server_;  // they feed the prefetcher
};

}  // namespace ffrfs
