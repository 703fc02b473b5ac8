// Pools memory for the arrays that batches are read into, so that a new array gets pages that are
// already mapped.
//
// Not thread-safe: the owner must lock.

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

  // Starts a batch: the peak of past batches decays by an eighth.
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

  // Uses malloc_usable_size(), because the caller may not know how much was allocated.
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
  // The free lists hold at most as much as arrays used at a recent peak, so that a batch reuses the
  // memory of the one before; but always up to 32 MiB, and never more than 256 MiB (four batches of
  // 64 records of 1 MiB).
  static constexpr size_t kFreeLimitMinBytes = size_t{32} << 20;
  static constexpr size_t kFreeLimitMaxBytes = size_t{256} << 20;

  // Size classes are a quarter of the power of two below apart, and whole pages.
  static size_t step_of(size_t size) { return std::max(std::bit_floor(size) / 4, kPageSize); }
  static size_t class_up(size_t size) {
    const size_t step = step_of(size);
    return (size + step - 1) / step * step;
  }
  static size_t class_down(size_t size) { return size / step_of(size) * step_of(size); }

  std::map<size_t, std::vector<void*>> free_;  // by size class
  size_t free_bytes_ = 0;
  size_t used_bytes_ = 0;  // of the arrays in use
  size_t peak_bytes_ = 0;  // recent peak of used_bytes_
};

}  // namespace ffrfs
