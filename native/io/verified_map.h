// A mapped range of a file whose bytes are checked, in blocks of 64 KiB, when they are first
// touched, and again when the file has changed.
//
//   const uint32_t slot = map.read([&] { return load_le<uint32_t>(map.bytes(at, 4, "files")); });
//
// What bytes() gives was right then; whether it still was while it was used, read() asks
// afterwards (has a page become unreadable, has the file's ctime changed?), and looks once
// more if not. So an overwritten or truncated file gives errors and never a wrong byte, and
// one that was only touched or renamed is read on.
//
// A write changes the ctime first and the bytes after that. So while the ctime is young (2 s)
// no block counts as verified for good: those that a look touches are checked before it and
// after it.
//
// Any thread; no lock but where something has changed. Memory: 8 bytes a block.
// Not here: where the checksums come from (record/).

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/mapped_file.h"
#include "io/source_file.h"

namespace ffrfs {

class VerifiedMap {
 public:
  static constexpr uint64_t kBlockSize = 65536;

  // How old a change must be for its bytes to be there. No single write of a block's
  // neighbourhood is expected to take longer.
  static constexpr std::chrono::nanoseconds kSettling = std::chrono::seconds(2);

  // Up to 64 bytes of the range that count as zeros in a checksum.
  struct Blank {
    uint64_t offset = 0;
    uint64_t size = 0;
  };

  // [offset, offset + size) of `file`, which outlives this. `checksums`: the CRC-32C of each
  // block. For messages: `name` is what all of it is, `advice` what to do about damage.
  // `blanks`: in order, apart. Throws StorageError.
  VerifiedMap(const SourceFile& file, uint64_t offset, uint64_t size,
              std::vector<uint32_t> checksums, std::string name, std::string advice,
              std::vector<Blank> blanks = {},
              std::chrono::nanoseconds settling = kSettling);

  [[nodiscard]] uint64_t size() const { return bytes_.size(); }
  // What this takes of the process's own memory.
  [[nodiscard]] uint64_t memory_bytes() const { return 8 * checksums_.size(); }

  // [offset, offset + size), which must lie inside. `part`: what of it this is.
  // Throws ChecksumError, StorageError.
  [[nodiscard]] std::span<const std::byte> bytes(uint64_t offset, size_t size,
                                                 const char* part) const {
    if (size == 0) return {};
    const uint64_t last = (offset + size - 1) / kBlockSize;
    for (uint64_t block = offset / kBlockSize; block <= last; ++block) {
      if (!is_verified(block)) verify(block, part);
    }
    return bytes_.subspan(offset, size);
  }

  // What `look` returns, which may call bytes(), and may be called again.
  // Throws StorageError (the file is being written to), and what `look` throws.
  template <typename Look>
  [[nodiscard]] auto read(Look&& look) const -> std::invoke_result_t<Look&> {
    for (int tries_left = kTryCount; tries_left > 0; --tries_left) {
      const uint32_t begun = present_generation();
      if (is_settled()) {
        auto found = look();
        if (has_held_since(begun)) return found;
      } else {
        const Watch watch(*this);
        auto found = look();
        if (watch.has_held() && has_held_since(begun)) return found;
      }
    }
    refuse_unsteady();
  }

 private:
  static constexpr int kTryCount = 4;
  // Where blocks are touched one after the other, so many are read at once.
  static constexpr uint64_t kAheadCount = 16;

  // Of this thread, while a look goes on: the blocks that it has touched.
  class Watch {
   public:
    explicit Watch(const VerifiedMap& map);
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch();

    // The innermost of `map`; nullptr: nobody watches.
    [[nodiscard]] static Watch* of(const VerifiedMap& map);

    [[nodiscard]] bool has(uint64_t block) const;
    void add(uint64_t block) { blocks_.push_back(block); }
    // Whether those blocks are right now.
    [[nodiscard]] bool has_held() const;

   private:
    static thread_local Watch* innermost;

    const VerifiedMap& map_;
    Watch* const outer_;
    std::vector<uint64_t> blocks_;
  };

  [[nodiscard]] bool is_verified(uint64_t block) const {
    return !mapped_.is_damaged() &&
           verified_in_[block].load(std::memory_order_acquire) ==
               generation_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool is_settled() const;
  void verify(uint64_t block, const char* part) const;
  // What the block's bytes give; nullopt: they cannot be read.
  [[nodiscard]] std::optional<uint32_t> checksum(uint64_t block) const;
  [[nodiscard]] uint64_t block_end(uint64_t block) const;
  [[nodiscard]] uint32_t present_generation() const {
    const uint32_t generation = generation_.load(std::memory_order_acquire);
    return generation % 2 == 0 ? generation : wait_for_generation();
  }
  [[nodiscard]] uint32_t wait_for_generation() const;
  [[nodiscard]] bool has_held_since(uint32_t generation) const;
  void restore() const;
  [[noreturn]] void refuse_unsteady() const;

  const SourceFile& file_;
  const uint64_t file_offset_;
  mutable MappedFile mapped_;
  const std::span<const std::byte> bytes_;
  const std::vector<uint32_t> checksums_;
  const std::string name_;
  const std::string advice_;
  const std::vector<Blank> blanks_;

  // A block is verified if its number here is that of the present generation; a new one
  // begins when the file has changed, or pages of zeros are replaced. While that is being
  // done the number is odd, and nothing that is found counts.
  mutable std::atomic<uint32_t> generation_{2};
  const std::unique_ptr<std::atomic<uint32_t>[]> verified_in_;
  mutable std::atomic<int64_t> changed_ns_;  // the file's ctime
  const std::chrono::nanoseconds settling_;
  mutable std::mutex mutex_;                 // of beginning a generation
};

}  // namespace ffrfs
