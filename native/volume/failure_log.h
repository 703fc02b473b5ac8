// Which failures to log: one line per file that cannot be read, not one per read. A
// program that meets a bad file often tries again and again, and so do its workers.
//
// Any thread.

#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <mutex>
#include <unordered_map>

#include "tree/tree.h"

namespace ffrfs {

class FailureLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kRepeatAfter = std::chrono::seconds(60);
  static constexpr size_t kFilesMax = 1024;  // the one logged longest ago is forgotten

  // True: log it. False: the file had its line less than kRepeatAfter ago.
  [[nodiscard]] bool due(Ino ino, Clock::time_point now = Clock::now());

 private:
  struct Line {
    Ino ino;
    Clock::time_point at;
  };
  std::mutex mutex_;
  std::list<Line> lines_;  // the latest first
  std::unordered_map<Ino, std::list<Line>::iterator> by_ino_;
};

}  // namespace ffrfs
