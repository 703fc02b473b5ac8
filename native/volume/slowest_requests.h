// The slowest requests of the last minutes, one for each inode, so that people find the file, or
// the disk, that requests wait for. In a volume's counter page, 16 rows "slowest.N":
//
//   0        when it was answered, ns of CLOCK_MONOTONIC; 0: the row is empty
//   1        how long it took, ns
//   2        its kind, as a number (request_times.h)
//   3        its inode
//   4        size of the path in bytes; 0: it was not looked up yet
//   5 … 68   the path, or the end of a longer one; then zeros
//   69       CRC-32 of all before: does not match if the row was read while it changed
//
// A fast request costs a compare with a constant. One of a millisecond or more takes a lock and
// scans the 16 rows. A thread of its own looks up the paths, because a mapped index may have to be
// paged in. Thread-safe; not for use on both sides of a fork().

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>

#include "io/thread_pool.h"
#include "stats/counter_page.h"
#include "stats/request_times.h"
#include "tree/tree.h"

namespace ffrfs {

class SlowestRequests {
 public:
  static constexpr size_t kCount = 16;
  static constexpr uint64_t kSlowNs = 1'000'000;          // faster requests are ignored
  static constexpr uint64_t kKeptNs = 300'000'000'000;    // older rows are replaced by any other
  static constexpr size_t kPathWords = 64;
  static constexpr size_t kPathSizeMax = kPathWords * sizeof(uint64_t);
  static constexpr size_t kRowCount = 5 + kPathWords + 1;  // values in a row

  using FindPath = std::function<std::string(Ino)>;
  // `find_path` may block.
  SlowestRequests(CounterPage& page, FindPath find_path);

  // Notes that a request on `ino` was answered just now.
  void note(RequestKind kind, Ino ino, uint64_t elapsed_ns) noexcept {
    if (elapsed_ns >= kSlowNs) remember(kind, ino, elapsed_ns, now_ns());
  }

  // The same for a request that ended at now_ns of CLOCK_MONOTONIC.
  void remember(RequestKind kind, Ino ino, uint64_t elapsed_ns, uint64_t now_ns) noexcept;

 private:
  struct Slot {
    uint64_t ended_ns = 0;  // 0: empty
    uint64_t elapsed_ns = 0;
    RequestKind kind{};
    Ino ino = 0;
    std::string path;  // empty: not looked up yet
    std::span<Counter> row;
  };

  [[nodiscard]] static uint64_t now_ns();
  [[nodiscard]] Slot* place_for(Ino ino, uint64_t elapsed_ns, uint64_t now_ns);
  void start_naming();
  void name_all();
  [[nodiscard]] std::string name_of(Ino ino) const;
  static void publish(const Slot& slot);

  const FindPath find_path_;
  std::mutex mutex_;  // guards the slots, their rows, and is_naming_
  std::array<Slot, kCount> slots_;
  bool is_naming_ = false;
  ThreadPool naming_{1};  // last, because its thread uses the members above
};

}  // namespace ffrfs
