// The slowest requests of the last minutes, each of another inode: for people who look for
// the file, or the disk, that all wait for. In a volume's counter page, 16 rows "slowest.N":
//
//   0        when it was answered, ns of CLOCK_MONOTONIC; 0: the row is empty
//   1        how long it took, ns
//   2        its kind, as a number (request_times.h)
//   3        its inode
//   4        size of the path in bytes; 0: it was not looked up yet
//   5 … 68   the path, of a longer one the end; zeros behind it
//   69       CRC-32 of all before: a row that was seen while it changed does not match
//
// A fast request costs a compare with a constant. One of a millisecond or more takes a lock
// and looks at the 16. Paths are looked up by a thread of their own, since a mapped index
// may have to be paged in. Any thread; not for use on both sides of a fork().

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
  static constexpr uint64_t kSlowNs = 1'000'000;          // all that is faster is passed over
  static constexpr uint64_t kKeptNs = 300'000'000'000;    // then any other takes its place
  static constexpr size_t kPathWords = 64;
  static constexpr size_t kPathSizeMax = kPathWords * sizeof(uint64_t);
  static constexpr size_t kRowCount = 5 + kPathWords + 1;  // values of a row

  using FindPath = std::function<std::string(Ino)>;
  // `find_path` may wait.
  SlowestRequests(CounterPage& page, FindPath find_path);

  // A request about `ino` was answered just now.
  void note(RequestKind kind, Ino ino, uint64_t elapsed_ns) noexcept {
    if (elapsed_ns >= kSlowNs) remember(kind, ino, elapsed_ns, now_ns());
  }

  // The same, at that time of CLOCK_MONOTONIC.
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
  ThreadPool naming_{1};  // last: its thread uses all of the above
};

}  // namespace ffrfs
