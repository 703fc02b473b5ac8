// What a cache holds of an object: a sparse file with its bytes, and one that says which blocks
// are there. Both come from the fetcher by descriptor; others change them meanwhile.
//
//   state   [ header, 4096 bytes ][ live: a byte a block, 0 absent, else a number ][ not ours ]
//   data    [ block ][ hole ][ block ] ...                         as large as the object
//
// A read is good if every block of it had the same number, not 0, before and after. Nothing is
// mapped: another may cut both files at any time, and then blocks are absent.
//
// Immutable: any number of threads. No byte is trusted, as of any source.

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

// Of an object, as it was found and pinned.
struct ObjectFacts {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  uint64_t block_size = 0;  // a power of two
  std::string pin{};        // the fetcher's word for this version of it; "": it has none

  [[nodiscard]] uint64_t block_count() const { return (size + block_size - 1) / block_size; }
  // Those with bytes of [offset, offset + size), of which there is one at least.
  [[nodiscard]] BlockRange blocks_of(uint64_t offset, uint64_t count) const {
    const uint64_t first = offset / block_size;
    return {.first = first, .count = (offset + count - 1) / block_size - first + 1};
  }
  bool operator==(const ObjectFacts&) const = default;
};

class CachedFiles {
 public:
  static constexpr uint64_t kBlockSizeMin = 4096;
  static constexpr uint64_t kBlockSizeMax = uint64_t{64} << 20;

  // `name`: of the object, for messages. Throws RemoteError unless both are files as they must
  // be for an object of these facts.
  CachedFiles(FileDescriptor data, FileDescriptor state, const ObjectFacts& facts,
              const std::string& name);

  // Whether all of these blocks are there now.
  [[nodiscard]] bool has(BlockRange range) const { return !find_missing(range); }
  // From the first block of `range` that is absent to the last that is; nullopt: none is.
  [[nodiscard]] std::optional<BlockRange> find_missing(BlockRange range) const;

  // kLost: the blocks are marked as there, and the data file is too short or cannot be read.
  enum class Found : uint8_t { kAll, kAbsent, kLost };
  // Both fill memory from `offset`, if all of it is there from begin to end. The first never
  // waits, and is for what is in memory; the second waits for a disk.
  [[nodiscard]] bool read_now(uint64_t offset, Source::Parts parts) const;
  [[nodiscard]] Found read(uint64_t offset, std::span<std::byte> target) const;

  // Of the data file, as those of a source.
  [[nodiscard]] bool is_in_memory(uint64_t offset, size_t size) const {
    return is_memory_ || data_.is_cached(offset, size);
  }
  void will_need(uint64_t offset, size_t size) const {
    if (!is_memory_) data_.will_need(offset, size);
  }

  void drop_cached(uint64_t offset, uint64_t size) const {
    if (!is_memory_) data_.drop_cached(offset, size);
  }

  // Whether those are the same two files.
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
  // Fills `target` with the numbers of the blocks from `first` on; what the file lacks is 0.
  void read_numbers(uint64_t first, std::span<std::byte> target) const;

  const uint64_t block_size_;
  int data_fd_;
  LocalFile data_;
  bool is_memory_ = false;  // the kernel's own, with no disk below
  FileDescriptor state_;
  FileId data_id_;
  FileId state_id_;
};

}  // namespace ffrfs::remote
