// Keeps the state that must outlive the process that serves a connection, so that another process
// can continue: the argument of INIT, which the kernel sends once, and the requests in flight. The
// journal is in the counter page, whose memory the daemon keeps:
//
//   init       the argument, 8 words; zeros before INIT
//   in_flight  for each of kRequestCount places the request's `unique`, or 0, and its key
//   last_unique  of the request that was noted last
//   requests_resent  how many came again because their process had ended
//
// If a process is killed, a thread of it that waits for a request may still take one on its way
// out, and cannot note it. A kernel that cannot resend does not report that request either. But it
// numbers requests one after the other, so the next process answers all numbers near the last one,
// and the kernel ignores answers to requests that no process has taken.
//
// Written by a process that may have been ended at any instruction, and read by the next one and by
// the daemon (ffrfs/mount/engines/worker_deaths.py), which trust nothing in it.
//
// Thread-safe but for the constructor and clear().

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "fuse/protocol.h"
#include "stats/counter_page.h"

namespace ffrfs::fuse {

// Identifies a request by its inode and its operation.
[[nodiscard]] constexpr uint64_t request_key(uint64_t ino, uint32_t opcode) {
  return ino << 8 | (opcode & 0xff);
}

class Journal {
 public:
  static constexpr size_t kRequestCount = 512;
  // How far below and above the last number noted a request may be that was taken but not noted.
  // The same values are in worker_deaths.py.
  static constexpr uint64_t kBehind = 1 << 14;
  static constexpr uint64_t kAhead = 1 << 12;
  using Init = std::array<uint64_t, sizeof(InitIn) / sizeof(uint64_t)>;

  explicit Journal(CounterPage& page);

  [[nodiscard]] std::optional<Init> init() const;
  void keep_init(std::span<const std::byte> argument);

  // Notes a request that was received. Returns its place; nullptr if no place is free: then the
  // kernel can resend the request, but unanswered() does not visit it.
  [[nodiscard]] Counter* begin(const InHeader& header) noexcept;
  // Notes that a request was answered. `place` is the result of begin().
  static void end(Counter* place) noexcept;

  // Calls `visit` with the `unique` of each noted request that has no answer, and with all numbers
  // that requests taken but not noted may have.
  template <typename Visit> void unanswered(Visit visit) const {
    for (size_t place = 0; place < in_flight_.size(); place += 2) {
      if (const uint64_t unique = in_flight_[place]) visit(unique);
    }
    const uint64_t last = last_;
    for (uint64_t unique = last - std::min(last, kBehind); unique < last + kAhead; ++unique) {
      if (unique > 0) visit(unique);
    }
  }
  void clear();

 private:
  Counter& resent_;
  Counter& last_;
  const std::span<Counter> init_;
  const std::span<Counter> in_flight_;
};

}  // namespace ffrfs::fuse
