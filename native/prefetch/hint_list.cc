#include "prefetch/hint_list.h"

#include <algorithm>
#include <utility>

namespace ffrfs {
namespace {

// Even with a narrow window a list is this long, so that jumps are possible.
constexpr size_t kEntriesMin = 8192;
constexpr size_t kWindowsKept = 4;
constexpr size_t kWindowsBehind = 2;  // how many of them are behind the position
constexpr size_t kMarkersPerWindow = 4;

}  // namespace

HintList::HintList(size_t window_records, uint64_t window_bytes)
    : window_records_(std::max<size_t>(window_records, 1)),
      window_bytes_(window_bytes),
      limit_(std::max(kEntriesMin, kWindowsKept * window_records_)),
      least_size_((kWindowsBehind + 1) * window_records_) {}

void HintList::add(const Hint& hint, uint64_t size_bytes) {
  by_record_.emplace(hint.record, end());
  // An empty file needs no read.
  const State state = size_bytes > 0 ? State::kPending : State::kDone;
  entries_.push_back({.hint = hint, .size_bytes = size_bytes, .state = state});
}

size_t HintList::room() const { return limit_ - std::min(limit_, entries_.size()); }

bool HintList::has_window_room(uint64_t size_bytes) const {
  if (fetched_ <= position_) return true;
  return fetched_ - position_ < window_records_ && ahead_bytes_ + size_bytes <= window_bytes_;
}

bool HintList::wants(size_t batch_count) const {
  if (fetched_ >= end() || !has_window_room(entry(fetched_).size_bytes)) return false;
  // The reader is close to entries that were not taken yet: do not wait for a full batch.
  if (fetched_ <= position_) return true;
  const uint64_t ahead = fetched_ - position_;
  if (ahead < window_records_ / 2 && ahead_bytes_ < window_bytes_ / 2) return true;
  // Otherwise wait until a batch is full, unless the list is about to end.
  const uint64_t room = window_records_ - ahead;
  if (is_finished_ && end() - fetched_ <= room) return true;
  const uint64_t left = std::min<uint64_t>(end() - fetched_, room);
  return left >= std::min<uint64_t>(batch_count, window_records_ / 8);
}

std::optional<HintList::Next> HintList::take() {
  while (fetched_ < end() && entry(fetched_).state != State::kPending) {
    if (fetched_ >= position_) ahead_bytes_ += entry(fetched_).size_bytes;
    ++fetched_;
  }
  if (fetched_ >= end()) return std::nullopt;
  Entry& next = entry(fetched_);
  if (!has_window_room(next.size_bytes)) return std::nullopt;
  next.state = State::kFetching;
  if (fetched_ >= position_) ahead_bytes_ += next.size_bytes;
  ++since_marker_;
  since_marker_bytes_ += next.size_bytes;
  const bool is_marker = since_marker_ * kMarkersPerWindow >= window_records_ ||
                         since_marker_bytes_ >= window_bytes_ / kMarkersPerWindow;
  if (is_marker) {
    since_marker_ = 0;
    since_marker_bytes_ = 0;
  }
  return Next{next.hint, fetched_++, is_marker};
}

std::vector<uint64_t> HintList::take_coming(uint64_t limit_bytes, size_t limit_records) {
  std::vector<uint64_t> records;
  uint64_t bytes = 0;
  uint64_t index = fetched_;
  const uint64_t last = std::min<uint64_t>(end(), fetched_ + limit_records);
  for (; index < last && bytes < limit_bytes; ++index) {
    bytes += entry(index).size_bytes;
    if (index >= next_coming_ && entry(index).state == State::kPending) {
      records.push_back(entry(index).hint.record);
    }
  }
  next_coming_ = std::max(next_coming_, index);
  return records;
}

std::vector<uint64_t> HintList::next_records(size_t limit) const {
  std::vector<uint64_t> records;
  for (uint64_t index = fetched_; index < end() && records.size() < limit; ++index) {
    if (entry(index).state == State::kPending) records.push_back(entry(index).hint.record);
  }
  return records;
}

void HintList::put_back(uint64_t index) {
  fetched_ = index;
  entry(index).state = State::kPending;
  if (index >= position_) ahead_bytes_ -= entry(index).size_bytes;
}

void HintList::set_state(uint64_t index, State state) {
  if (index < base_ || entry(index).state == State::kDone) return;
  if (state == State::kDone) ++tally_.dropped_count;
  entry(index).state = state;
}

HintList::State HintList::state(uint64_t index) const {
  return index < base_ ? State::kDone : entry(index).state;
}

// Returns the first entry of the record that was not read yet. An entry that was pushed and that
// the reader seems to have passed is returned only if there is no other.
std::optional<uint64_t> HintList::find(uint64_t record) const {
  std::optional<uint64_t> passed;
  for (auto place = by_record_.lower_bound({record, 0});
       place != by_record_.end() && place->first == record; ++place) {
    const uint64_t index = place->second;
    const State now = entry(index).state;
    if (now == State::kDone) continue;
    if (now != State::kPushed || index >= position_) return index;
    if (!passed) passed = index;
  }
  return passed;
}

// Returns whether the record was read, or given up, at most two windows ago.
bool HintList::is_passed(uint64_t record) const {
  const auto place = by_record_.lower_bound({record, 0});
  return place != by_record_.end() && place->first == record &&
         entry(place->second).state == State::kDone;
}

bool HintList::note_read(uint64_t record, bool was_ready) {
  const auto index = find(record);
  if (!index) return is_passed(record);
  const bool is_near = *index < std::max(fetched_, position_) + window_records_;
  // Another request for a record that was just read and is hinted again for later: reading a record
  // may take several requests.
  if (!is_near && is_passed(record)) return true;
  ++(was_ready ? tally_.hit_count : tally_.late_count);
  entry(*index).state = State::kDone;
  entry(*index).is_asked_for = true;
  if (is_near) {
    candidate_.reset();
    move_to(*index + 1);
  } else {
    jump_to(*index);
  }
  return true;
}

// A single read far ahead may come from any program; two near each other show that the reader is
// there.
void HintList::jump_to(uint64_t index) {
  if (!candidate_ || *candidate_ < base_ ||
      std::max(*candidate_, index) - std::min(*candidate_, index) >= window_records_) {
    candidate_ = index;
    return;
  }
  const uint64_t first = std::min(*candidate_, index);
  candidate_.reset();
  move_to(index + 1);
  fetched_ = std::max(base_, first);  // not after the position, so that nothing counts as ahead
}

void HintList::move_to(uint64_t position) {
  while (position_ < position) {
    if (position_ < fetched_) ahead_bytes_ -= entry(position_).size_bytes;
    ++position_;
  }
  forget_front();
}

// Drops the entries that are more than two windows behind: no reader comes for them any more.
void HintList::forget_front() {
  while (base_ + kWindowsBehind * window_records_ < position_) {
    const Entry& front = entries_.front();
    if (front.state == State::kPushed) {
      // Readers get pushed files without a request.
      ++tally_.hit_count;
    } else if (front.state != State::kDone) {
      ++tally_.dropped_count;
      if (front.state == State::kHeld) forgotten_.push_back(front.hint.record);
    }
    by_record_.erase({front.hint.record, base_});
    entries_.pop_front();
    ++base_;
  }
  fetched_ = std::max(fetched_, base_);
}

// Gives up entries that were left out while many before and after them were read. Readers may share
// a list, each reading a section of it, but each reads its section in order.
void HintList::forget_left_out() {
  constexpr size_t kNeighbours = 32;
  constexpr uint32_t kAskedForMin = 12;
  const auto count = static_cast<size_t>(std::max(left_behind_, base_) - base_);
  left_behind_ = position_;
  std::vector<uint32_t> asked(count + 1);  // how many of the entries before each were read
  for (size_t i = 0; i < count; ++i) asked[i + 1] = asked[i] + (entries_[i].is_asked_for ? 1 : 0);
  for (size_t i = 0; i < count; ++i) {
    Entry& left = entries_[i];
    if (left.state != State::kHeld) continue;
    const uint32_t before = asked[i] - asked[i - std::min(i, kNeighbours)];
    const uint32_t behind = asked[std::min(count, i + kNeighbours)] - asked[i];
    if (before < kAskedForMin || behind < kAskedForMin) continue;
    left.state = State::kDone;
    ++tally_.dropped_count;
    forgotten_.push_back(left.hint.record);
  }
}

bool HintList::is_over() const {
  return is_finished_ && position_ >= end() && std::ranges::all_of(entries_, [](const Entry& left) {
    return left.state == State::kDone || left.state == State::kPushed;
  });
}

HintList::Tally HintList::take_tally() { return std::exchange(tally_, {}); }

HintList::Tally HintList::close() {
  for (uint64_t index = base_; index < end(); ++index) {
    const Entry& left = entry(index);
    if (left.state == State::kPushed) {
      if (index < position_) ++tally_.hit_count;
    } else if (left.state != State::kDone) {
      ++tally_.dropped_count;
    }
  }
  entries_.clear();
  by_record_.clear();
  return take_tally();
}

}  // namespace ffrfs
