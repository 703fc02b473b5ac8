// Counts failures to read, in total and for each file, and decides which of them to log: a line per
// file and minute, not one per read. A program that meets a bad file often retries again and again,
// and so do its workers. In a volume's counter page:
//
//   read_failures      the total
//   failures_by_inode  for each of up to kFilesMax files its inode and its failures; then zeros
//
// The page may be that of a worker before this one, whose counts go on.
//
// Thread-safe.

#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <mutex>
#include <span>
#include <unordered_map>

#include "stats/counter_page.h"
#include "tree/tree.h"

namespace ffrfs {

class FailureLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kRepeatAfter = std::chrono::seconds(60);
  static constexpr size_t kFilesMax = 1024;  // the one logged longest ago is dropped

  explicit FailureLog(CounterPage& page);

  // Counts a failure. Returns whether to log it: false if the file had a line less than
  // kRepeatAfter ago.
  [[nodiscard]] bool note(Ino ino, Clock::time_point now = Clock::now());

 private:
  struct Line {
    Ino ino;
    Clock::time_point at;
    size_t slot;  // in table_
  };
  Counter& total_;
  const std::span<Counter> table_;
  std::mutex mutex_;
  std::list<Line> lines_;  // latest first
  std::unordered_map<Ino, std::list<Line>::iterator> by_ino_;
};

}  // namespace ffrfs
