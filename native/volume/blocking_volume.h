// A volume for callers that block: the commands and PackTree. A mount's engines never do.
//
// Any number of threads, each with a BlockingVolume of its own; not while an engine polls the
// volume.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "volume/volume.h"

namespace ffrfs {

class BlockingVolume {
 public:
  static constexpr int kIdleMs = 100;

  // `idle` is called about every `idle_ms` while a call waits (-1: only after an event); an
  // exception from it ends the call.
  explicit BlockingVolume(Volume& volume, std::function<void()> idle = [] {}, int idle_ms = kIdleMs)
      : volume_(volume), idle_(std::move(idle)), idle_ms_(idle_ms) {}

  // Throws ChecksumError, StorageError, as do the other functions.
  [[nodiscard]] TreePtr load_tree(Need need, Ino ino);

  // Returns the inode of "a/b/c", or 0. Skips empty and "." parts; no
  // directory has an entry "..".
  [[nodiscard]] Ino resolve(std::string_view path);

  // The same as Volume::read(), but waits.
  [[nodiscard]] Slice read(Ino ino, uint64_t offset, size_t size);

  // Reads whole files at once, each into the memory given for it, which has the file's size. Throws
  // the error of one that fails; FormatError if one is shorter now.
  void read_files(std::span<const std::pair<Ino, std::span<std::byte>>> files);

 private:
  struct Together;

  // The result of a callback, which may come after the caller has returned.
  template <typename Value> struct Result {
    std::atomic<bool> ready{false};
    Value value;
    std::exception_ptr error;
  };

  template <typename Value>
  [[nodiscard]] static auto deliver(const std::shared_ptr<Result<Value>>& result) {
    return [result](Value value, std::exception_ptr error) {
      result->value = std::move(value);
      result->error = std::move(error);
      result->ready.store(true, std::memory_order_release);
    };
  }

  void wait_until(const std::function<bool()>& is_ready);

  Volume& volume_;
  const std::function<void()> idle_;
  const int idle_ms_;
};

}  // namespace ffrfs
