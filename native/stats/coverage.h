// Notes which records were announced, requested, or given to the kernel, since a mark.
//
//   the file of the counter page   0x00000  the page
//                                  0x10000  a page of the daemon's: when the mark was set
//                                  0x11000  four bits a record, two records in a byte
//
//   bits 0 and 1   how often a hint named the record: 0, 1, 2 or more; 3: it is no file
//   bit 2          the kernel has asked for its beginning
//   bit 3          it was given to the kernel's page cache
//
// The daemon reads and clears them (ffrfs/mount/engines/coverage.py), so a worker that takes over
// goes on with them. The file has a hole where nothing was noted: a record costs memory when it, or
// one near it, was.
//
// Thread-safe. Not here: the order of the hints (prefetch/hint_orders.h).

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stats/counter_page.h"

namespace ffrfs {

class Coverage {
 public:
  static constexpr size_t kBegin = CounterPage::kSize + 4096;

  // `shared_fd`: the file of the counter page. Notes nothing if it is -1, or too short.
  Coverage(int shared_fd, uint64_t record_count, CounterPage& page);
  ~Coverage();
  Coverage(const Coverage&) = delete;
  Coverage& operator=(const Coverage&) = delete;

  void note_hint(uint64_t record);
  void note_request(uint64_t record) { set(record, kRequested); }
  void note_push(uint64_t record) { set(record, kPushed); }
  // Notes that the record is no file of the tree.
  void leave_out(uint64_t record) { set(record, kNoFile); }

 private:
  using Bits = std::atomic<uint8_t>;
  static constexpr uint8_t kNoFile = 3;
  static constexpr uint8_t kRequested = 4;
  static constexpr uint8_t kPushed = 8;

  static unsigned shift_of(uint64_t record) { return record % 2 == 0 ? 0 : 4; }
  void set(uint64_t record, uint8_t bits);

  Bits* bits_ = nullptr;
  uint64_t record_count_ = 0;  // 0: nothing is noted
};

}  // namespace ffrfs
