// Memory for arrays that batches are read into; what no array uses is kept warm.
//
// Not thread-safe: its owner guards it.

#pragma once

#include <malloc.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

namespace ffrfs {

class ArrayPool {
 public:
  static constexpr size_t kSmallestPooled = 4096;

  // A batch begins: what was in use long ago counts no more.
  void begin() { peak_bytes_ = std::max(used_bytes_, peak_bytes_ - peak_bytes_ / 8); }

  void* take(size_t size) {
    if (size < kSmallestPooled) return std::malloc(size);
    const size_t capacity = class_up(size);
    used_bytes_ += capacity;
    peak_bytes_ = std::max(peak_bytes_, used_bytes_);
    if (const auto found = free_.find(capacity); found != free_.end() && !found->second.empty()) {
      void* memory = found->second.back();
      found->second.pop_back();
      free_bytes_ -= capacity;
      return memory;
    }
    return std::aligned_alloc(kPageSize, capacity);
  }

  // Goes by what malloc says it is, not by what the caller believes.
  void give(void* memory) {
    const size_t usable = malloc_usable_size(memory);
    const size_t capacity = usable < kSmallestPooled ? 0 : class_down(usable);
    used_bytes_ -= std::min(used_bytes_, capacity);
    const size_t limit = std::clamp(peak_bytes_, kFreeLimitMinBytes, kFreeLimitMaxBytes);
    if (capacity == 0 || free_bytes_ + capacity > limit ||
        reinterpret_cast<uintptr_t>(memory) % kPageSize != 0) {
      std::free(memory);
      return;
    }
    free_[capacity].push_back(memory);
    free_bytes_ += capacity;
  }

 private:
  static constexpr size_t kPageSize = 4096;
  // What is kept while no array uses it: as much as arrays had at a time not long ago, so that a
  // batch finds the memory of the one before; but this at least, and at most four batches of 64
  // records of 1 MiB.
  static constexpr size_t kFreeLimitMinBytes = size_t{32} << 20;
  static constexpr size_t kFreeLimitMaxBytes = size_t{256} << 20;

  // Steps of a quarter of the power of two below, in whole pages.
  static size_t step_of(size_t size) { return std::max(std::bit_floor(size) / 4, kPageSize); }
  static size_t class_up(size_t size) {
    const size_t step = step_of(size);
    return (size + step - 1) / step * step;
  }
  static size_t class_down(size_t size) { return size / step_of(size) * step_of(size); }

  std::map<size_t, std::vector<void*>> free_;  // by capacity
  size_t free_bytes_ = 0;
  size_t used_bytes_ = 0;  // by arrays
  size_t peak_bytes_ = 0;  // of used_bytes_, not long ago
};

}  // namespace ffrfs
