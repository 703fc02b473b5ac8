// The cache of one object: a sparse file with its bytes, and a state file that says which blocks
// are cached. The fetcher hands over both as descriptors; other processes change them meanwhile.
//
//   state   [ header, 4096 bytes ][ live: a byte a block, 0 absent, else a number ][ fetcher's ]
//   data    [ block ][ hole ][ block ] ...                         as large as the object
//
// A read is good if every block of it had the same number, not 0, before and after. Nothing is
// mapped: another process may truncate both files at any time, and then blocks are absent.
//
// Immutable and thread-safe. No byte is trusted, as with any source.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/file_descriptor.h"
#include "io/local_file.h"
#include "io/source.h"
#include "remote/link_message.h"

namespace ffrfs::remote {

// The properties of an object when it was opened and pinned.
struct ObjectFacts {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  uint64_t block_size = 0;  // a power of two
  std::string pin{};        // the fetcher's identifier of this version; "": it has none

  [[nodiscard]] uint64_t block_count() const { return (size + block_size - 1) / block_size; }
  // Returns the blocks that overlap [offset, offset + count), at least one.
  [[nodiscard]] BlockRange blocks_of(uint64_t offset, uint64_t count) const {
    const uint64_t first = offset / block_size;
    return {.first = first, .count = (offset + count - 1) / block_size - first + 1};
  }
  bool operator==(const ObjectFacts&) const = default;
};

class CachedFiles {
 public:
  static constexpr uint64_t kBlockSizeMin = 4096;
  static constexpr size_t kDirectAlignment = 4096;
  static constexpr uint64_t kBlockSizeMax = uint64_t{64} << 20;

  // `name` names the object in messages. Throws RemoteError unless both files fit an object with
  // these facts.
  CachedFiles(FileDescriptor data, FileDescriptor state, const ObjectFacts& facts,
              const std::string& name);

  // Returns whether all of these blocks are cached now.
  [[nodiscard]] bool has(BlockRange range) const { return !find_missing(range); }
  // Returns the range from the first absent block of `range` to the last; nullopt if none is
  // absent.
  [[nodiscard]] std::optional<BlockRange> find_missing(BlockRange range) const;

  // kLost: the blocks are marked as cached, but the data file is too short or cannot be read.
  enum class Found : uint8_t { kAll, kAbsent, kLost };
  // Both fill memory from `offset`, if all of it is cached before and after the read. read_now()
  // reads only bytes in memory, and never waits; read() may wait for a disk. `size`: that of all
  // parts, at least 1.
  [[nodiscard]] bool read_now(uint64_t offset, size_t size, Source::Parts parts) const;
  [[nodiscard]] Found read(uint64_t offset, std::span<std::byte> target) const;
  // Begins a read without the page cache, if all of the range is cached, and only on disk: pages
  // that the fetcher has just written would have to be written back first. Valid while `this` is.
  [[nodiscard]] DirectRead begin_direct(uint64_t offset, size_t size) const;

  // The same as the functions of Source, for the data file.
  [[nodiscard]] bool is_in_memory(uint64_t offset, size_t size) const {
    return is_memory_ || data_.is_cached(offset, size);
  }
  void will_need(uint64_t offset, size_t size) const {
    if (!is_memory_) data_.will_need(offset, size);
  }

  void drop_cached(uint64_t offset, uint64_t size) const {
    if (!is_memory_) data_.drop_cached(offset, size);
  }

  // Returns whether both objects hold the same two files.
  [[nodiscard]] bool is_same(const CachedFiles& other) const {
    return data_id_ == other.data_id_ && state_id_ == other.state_id_;
  }

 private:
  struct FileId {
    uint64_t device = 0;
    uint64_t inode = 0;
    bool operator==(const FileId&) const = default;
  };
  class Numbers;

  void check_state(const ObjectFacts& facts, const std::string& name);
  [[nodiscard]] Numbers numbers(uint64_t offset, uint64_t size) const;
  // Fills `target` with the numbers of the blocks from `first` on; 0 past the file's end.
  void read_numbers(uint64_t first, std::span<std::byte> target) const;

  const uint64_t block_size_;
  int data_fd_;
  LocalFile data_;
  bool is_memory_ = false;  // the data file is in memory, without a disk
  FileDescriptor state_;
  FileId data_id_;
  FileId state_id_;
};

}  // namespace ffrfs::remote
