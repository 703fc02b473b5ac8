// Remembers the checksum that each record had when it was first verified. Names, sizes and
// positions that were computed from its bytes then may be used long after the bytes were freed;
// they fit the record only while it has the same checksum.
//
// Takes 4 bytes a record. Thread-safe, without a lock; the child of a fork() keeps the parent's
// checksums.

#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace ffrfs {

class SeenChecksums {
 public:
  explicit SeenChecksums(uint64_t record_count) : seen_(record_count) {}

  // For a record whose bytes match `checksum`: returns whether this call is the first for the
  // record, or the first had the same checksum.
  [[nodiscard]] bool is_first(uint64_t record, uint32_t checksum) {
    if (checksum == kNone) checksum = kInPlaceOfNone;
    uint32_t first = kNone;
    return seen_[record].compare_exchange_strong(first, checksum, std::memory_order_relaxed) ||
           first == checksum;
  }

 private:
  static constexpr uint32_t kNone = 0;
  static constexpr uint32_t kInPlaceOfNone = 1;  // replaces 0: one more collision in four billion

  std::vector<std::atomic<uint32_t>> seen_;
};

}  // namespace ffrfs
