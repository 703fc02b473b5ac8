// A mounted tree: names, attributes and verified bytes. Both engines, PackedFolder and
// the commands that read are its clients.
//
// The tree comes in parts where records hold directories of their own (tree/subtrees.h): what
// is computed, tree(), and for each record the part that is made of its bytes, which may have
// to be read (load_tree()). Everywhere else tree() is all of it.
//
// Any thread. Immutable after opening but for the read path, which guards itself and is
// made anew in the child of a fork().
// Knows nothing of FUSE or Python. Who wants to wait: blocking_volume.h.

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
#include "prefetch/store_gate.h"
#include "shard/shard_set.h"
#include "stats/counters.h"
#include "stats/request_times.h"
#include "tree/tree.h"
#include "volume/failure_log.h"
#include "volume/file_reads.h"
#include "volume/slowest_requests.h"
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

// What a part of the tree must know: what an inode is, or what is in that directory.
enum class Need { kInode, kEntries };

using TreeDone = std::function<void(TreePtr, std::exception_ptr)>;

class Volume {
 public:
  // Opens `paths` (see open_packs()). Throws StorageError, FormatError, UnsafeIndexError,
  // ChecksumError (of the index).
  Volume(const std::vector<std::string>& paths, const VolumeOptions& options);

  // Its methods may throw what a mapped index may (see Tree).
  [[nodiscard]] const Tree& tree() const { return *packs_.opened.tree; }
  [[nodiscard]] const ShardSet& shards() const { return packs_.shards; }
  [[nodiscard]] TreeKind kind() const { return packs_.opened.kind; }
  [[nodiscard]] bool has_subtrees() const { return subtrees_ != nullptr; }
  // What was left aside at opening, a line each.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return packs_.warnings; }
  [[nodiscard]] uint64_t byte_count() const { return shards().byte_count(); }
  // Files whose metadata is not verified (see Shard).
  [[nodiscard]] std::vector<std::string> unverified_paths() const;
  [[nodiscard]] Counters& counters() { return counters_; }

  // An engine has answered a request about `ino`; 0: about no file or folder.
  void note_request(RequestKind kind, Ino ino, uint64_t elapsed_ns) {
    request_times_.add(kind, elapsed_ns);
    if (ino != 0) slowest_requests_.note(kind, ino, elapsed_ns);
  }

  // The part of the tree that knows that of `ino`. nullptr: it is not at hand.
  [[nodiscard]] TreePtr find_tree(Need need, Ino ino) {
    const auto record = subtree_for(need, ino);
    // Not shared: it lives as long as the volume, and nothing is counted.
    return record ? subtree_reads_.get().trees().find(*record) : TreePtr(TreePtr(), &tree());
  }
  // The same, made if it is not at hand. nullptr: it comes through `done`, in poll(). Never
  // waits for the disk. Throws ChecksumError.
  [[nodiscard]] TreePtr load_tree(Need need, Ino ino, TreeDone done);

  // nullopt: no such inode. `part` is the one that knows `ino`; what tree() knows, any.
  // Throws as Tree and Shard::extent() do, of a damaged index; so do those that follow.
  [[nodiscard]] std::optional<Attributes> attributes(const Tree& part, Ino ino) const;

  // The same of what a listing of `part` has just named, in less time for each.
  [[nodiscard]] std::vector<Attributes> attributes(const Tree& part,
                                                   std::span<const Dentry> entries) const;

  // As far as it is at hand: of what is in a record's folder perhaps that folder's. Where the
  // index is damaged, "inode 7".
  [[nodiscard]] std::string path(Ino ino);

  // A request about `ino` has failed for want of bytes: count it. If it is to be logged, the
  // inode that it counts for: all files of a record's folder count as one.
  [[nodiscard]] std::optional<Ino> note_failure(Ino ino);

  // Of a file that is a whole record. Throws RangeError.
  [[nodiscard]] Extent extent(Ino ino) const;
  // The CRC-32 of a whole file that the pack has, if it has one.
  [[nodiscard]] std::optional<uint32_t> stored_crc32(const Contents& contents) const;

  // The whole of a file that is at hand, into `target`, as FileReads::read_now(). Neither size
  // nor extent: it is not a file that is read in one piece; then read() says more. Throws as read().
  [[nodiscard]] FileReads::AtOnce read_now(Ino ino, uint64_t offset, size_t size,
                                           std::span<std::byte> target);
  void read_missing(const Extent& extent, FileReads::Done done) {
    reads_.get().read_missing(extent, std::move(done));
  }
  // As FileReads::read, clipped to the end of the file. Throws RangeError.
  [[nodiscard]] std::optional<Slice> read(
      Ino ino, uint64_t offset, size_t size, FileReads::Done done,
      FileReads::Shape shape = FileReads::Shape::kOnePiece);
  void poll() { reads_.get().poll(); }
  // At most `timeout_ms`; -1: for ever.
  void wait(int timeout_ms) { reads_.get().wait(timeout_ms); }
  // Ends a wait() of another thread, whatever else there is to do.
  void wake() { reads_.get().wake(); }
  [[nodiscard]] int event_fd() { return reads_.get().event_fd(); }

  // For whole records at once.
  [[nodiscard]] Fetcher& fetcher() { return reads_.get().fetcher(); }

  // What the read path may hold from now on, in the place of VolumeOptions::cache_bytes:
  // what was read ahead, kept, or waits to be used again goes at once as far as it is
  // beyond; what is on its way is not taken from those who wait for it. What can be read at
  // all is by cache_bytes still. Any thread, one at a time; may take milliseconds.
  void limit_cache(size_t limit_bytes);

  // What may be in the kernel's page cache that was pushed and not read yet, in bytes. Nothing
  // before it was called. Any thread.
  void limit_pushed(uint64_t limit_bytes);

  // Pushes all files at and below `ino` that the kernel knows. Never waits.
  void warm(Ino ino) {
    if (prefetcher_) prefetcher_->warm(ino);
  }

  // Reading ahead, for an engine. `push` gives bytes of a file to the kernel's page cache;
  // false: it does not know that inode, or does not want them. Called on threads of the
  // volume; must not throw. Begins before the first request. Not after a fork().
  using Push = PageStore;
  void start_prefetch(Push push);
  // Nothing is read ahead any more, and no push begins. Waits for one that is under way, at
  // most `limit`; false: it still is.
  bool stop_prefetch(std::chrono::milliseconds limit);
  // A client that sends hints (hint_server.h). Nothing is read ahead before start_prefetch().
  void take_hints(FileDescriptor client);
  // What a client says that it will read: "/a/b.jpg", or a record's number. nullopt: there
  // is no such file, or the index is damaged there.
  [[nodiscard]] std::optional<Hint> hint(std::string_view text) const;

 private:
  [[nodiscard]] bool push(const Push& push, const Hint& hint,
                          std::span<const std::byte> record);
  // The record whose directory `ino` is, or is in.
  [[nodiscard]] std::optional<uint64_t> subtree_of(Ino ino) const {
    return subtrees_ != nullptr ? subtrees_->record_of(ino) : std::nullopt;
  }
  // nullopt: tree() knows that of `ino`.
  [[nodiscard]] std::optional<uint64_t> subtree_for(Need need, Ino ino) const {
    const auto record = subtree_of(ino);
    return record && need == Need::kInode && ino == subtrees_->top(*record) ? std::nullopt
                                                                           : record;
  }
  [[nodiscard]] size_t shard_of(Ino ino) const;
  // The kernel learns that inode.
  void note_known(Ino ino, const Inode& inode) const;
  // `size`: of its record, which matters only if it is a file that has none of its own.
  [[nodiscard]] Attributes to_attributes(Ino ino, const Inode& inode, uint64_t size) const;
  [[nodiscard]] static bool has_size_of_record(const Inode& inode) {
    return inode.is_file() && !inode.size;
  }
  [[nodiscard]] uint32_t permissions(const Inode& inode, uint32_t unknown) const;

  const VolumeOptions options_;
  Counters counters_;
  const OpenedPacks packs_;
  const Subtrees* const subtrees_;  // of the tree; nullptr: it has none
  RequestTimes request_times_;  // kept for the engines, as are the failures
  FailureLog failures_{counters_.page()};
  ProcessLocal<FileReads> reads_;
  ProcessLocal<SubtreeReads> subtree_reads_;  // over reads_; only if there are subtrees_
  StoreGate push_gate_;
  std::unique_ptr<Prefetcher> prefetcher_;
  std::unique_ptr<HintServer> hint_server_;  // they feed the prefetcher
  SlowestRequests slowest_requests_;  // last: its thread asks for paths
};

}  // namespace ffrfs
