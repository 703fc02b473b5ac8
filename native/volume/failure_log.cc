#include "volume/failure_log.h"

namespace ffrfs {

FailureLog::FailureLog(CounterPage& page)
    : total_(page.row("read_failures")), table_(page.row("failures_by_inode", 2 * kFilesMax)) {
  const auto before = Clock::now() - kRepeatAfter;  // the next failure of each is logged
  for (size_t slot = 0; slot < kFilesMax; ++slot) {
    const Ino ino = table_[2 * slot];
    // A compromised worker may have written anything. The rows from here on are not used.
    if (ino == 0 || by_ino_.contains(ino)) break;
    lines_.push_front({ino, before, slot});
    by_ino_.emplace(ino, lines_.begin());
  }
}

bool FailureLog::note(Ino ino, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  ++total_;
  if (const auto found = by_ino_.find(ino); found != by_ino_.end()) {
    Line& line = *found->second;
    ++table_[2 * line.slot + 1];
    if (now - line.at < kRepeatAfter) return false;
    line.at = now;
    lines_.splice(lines_.begin(), lines_, found->second);
    return true;
  }
  size_t slot = lines_.size();
  if (slot == kFilesMax) {
    slot = lines_.back().slot;
    by_ino_.erase(lines_.back().ino);
    lines_.pop_back();
  }
  // A reader of the table meanwhile sees a count of 0 or 1 for one of the two inodes.
  table_[2 * slot + 1] = 0;
  table_[2 * slot] = ino;
  table_[2 * slot + 1] = 1;
  lines_.push_front({ino, now, slot});
  by_ino_.emplace(ino, lines_.begin());
  return true;
}

}  // namespace ffrfs
