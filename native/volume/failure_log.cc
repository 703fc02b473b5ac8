#include "volume/failure_log.h"

namespace ffrfs {

bool FailureLog::due(Ino ino, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (const auto found = by_ino_.find(ino); found != by_ino_.end()) {
    if (now - found->second->at < kRepeatAfter) return false;
    lines_.erase(found->second);
    by_ino_.erase(found);
  }
  lines_.push_front({ino, now});
  by_ino_.emplace(ino, lines_.begin());
  if (lines_.size() > kFilesMax) {
    by_ino_.erase(lines_.back().ino);
    lines_.pop_back();
  }
  return true;
}

}  // namespace ffrfs
