// File times in nanoseconds: 64 bits reach from 1677 to 2262, and file systems go far beyond.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace ffrfs {

// Returns the nearest time since 1970 that fits; never the lowest number, which elsewhere means an
// unknown time.
[[nodiscard]] inline int64_t nanoseconds(int64_t seconds, int64_t rest_ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min() + 1;
  int64_t total_ns = 0;
  if (__builtin_mul_overflow(seconds, kSecond, &total_ns) ||
      __builtin_add_overflow(total_ns, rest_ns, &total_ns)) {
    return seconds < 0 ? kLowest : std::numeric_limits<int64_t>::max();
  }
  return std::max(total_ns, kLowest);
}

}  // namespace ffrfs
