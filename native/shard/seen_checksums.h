// The checksum that each record had when it was first verified. What was made of its bytes
// then, names, sizes and positions, may be used again long after they are gone; it fits the
// record only as long as that has the same checksum.
//
// 4 bytes a record, which is all it ever takes. Any thread, without a lock; the child of a
// fork() goes on with what was seen before.

#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace ffrfs {

class SeenChecksums {
 public:
  explicit SeenChecksums(uint64_t record_count) : seen_(record_count) {}

  // Of a record whose bytes match `checksum`: whether it had the same when it was seen first,
  // which may be now.
  [[nodiscard]] bool is_first(uint64_t record, uint32_t checksum) {
    if (checksum == kNone) checksum = kInPlaceOfNone;
    uint32_t first = kNone;
    return seen_[record].compare_exchange_strong(first, checksum, std::memory_order_relaxed) ||
           first == checksum;
  }

 private:
  static constexpr uint32_t kNone = 0;
  static constexpr uint32_t kInPlaceOfNone = 1;  // one more chance in four billion

  std::vector<std::atomic<uint32_t>> seen_;
};

}  // namespace ffrfs
