// What a volume has done so far. Any thread; relaxed, for people to look at.

#pragma once

#include <atomic>
#include <cstdint>

namespace ffrfs {

struct Counters {
  std::atomic<uint64_t> reads{0};              // requests for bytes of a file
  std::atomic<uint64_t> bytes_served{0};       // answered to them
  std::atomic<uint64_t> bytes_memory{0};       // taken from blocks held in memory
  std::atomic<uint64_t> bytes_page_cache{0};   // read without waiting
  std::atomic<uint64_t> bytes_storage{0};      // waited for
  std::atomic<uint64_t> checksums_verified{0};
  std::atomic<uint64_t> checksums_failed{0};
};

}  // namespace ffrfs
