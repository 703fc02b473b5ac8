// One record of a batch: its extent, and the memory that it is read into.
//
// Plain data: the owner must lock.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <vector>

#include "io/buffer.h"
#include "shard/extent.h"
#include "shard/shard_set.h"
#include "stats/counters.h"

namespace ffrfs {

struct BatchItem {
  Extent extent;
  std::span<std::byte> target;  // extent.size bytes; may be empty for Fetcher::load()
  std::exception_ptr error = nullptr;  // StorageError or ChecksumError
  Buffer buffer{};  // owns the target if load() allocated it
  std::array<std::byte, Extent::kTrailerSizeMax> trailer_memory{};

  void make_target(BufferPool& buffers) {
    buffer = buffers.acquire(static_cast<size_t>(extent.size));
    target = buffer.first(static_cast<size_t>(extent.size));
  }
  void drop_target() {
    buffer = {};
    target = {};
  }
  [[nodiscard]] uint64_t whole_size() const { return extent.size + extent.trailer_size(); }
  [[nodiscard]] std::span<std::byte> trailer() {
    return std::span(trailer_memory).first(extent.trailer_size());
  }
  // Throws ChecksumError unless the target holds the record.
  void check(const ShardSet& shards, Counters& counters);
};

[[nodiscard]] uint64_t total_size(std::span<const BatchItem> items);

// Cuts a batch into runs of items that are adjacent in the file, in this order. Returns the end
// index of each run.
[[nodiscard]] std::vector<size_t> run_ends(std::span<const BatchItem> items);

// Called with the index of each item as soon as that item is finished, on any thread; must not
// throw.
using ItemDone = std::function<void(size_t index)>;

}  // namespace ffrfs
