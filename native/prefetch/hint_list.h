// The hints of one client, in the order of its reads, and how far the reads have come.
//
//   index     0 ........ base ........ position ........ fetched ........ end
//             forgotten  │ behind: may  │ in the window:  │ will be taken
//                        │ still come   │ taken           │ when its turn comes
//
// The position is behind the farthest record of the window that was read. Readers need not keep to
// the order strictly (several may share a list), nor start at its beginning: two reads far ahead,
// near each other, move the window there.
//
// Plain data: the owner must lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "prefetch/hint.h"

namespace ffrfs {

class HintList {
 public:
  enum class State : uint8_t {
    kPending,   // not taken yet
    kFetching,
    kHeld,      // in memory
    kPushed,    // in the kernel's page cache
    kDone,      // read, or given up
  };
  // How hints ended, since the last take_tally().
  struct Tally {
    uint64_t hit_count = 0;      // in memory before a reader came
    uint64_t late_count = 0;     // read before they were in memory
    uint64_t dropped_count = 0;  // given up unread
  };
  struct Next {
    Hint hint;
    uint64_t index = 0;
    bool is_marker = false;  // must not be pushed, so that its READ shows how far the reader is
  };

  HintList(size_t window_records, uint64_t window_bytes);

  void add(const Hint& hint, uint64_t size_bytes);
  // Returns how many more hints the list takes.
  [[nodiscard]] size_t room() const;
  [[nodiscard]] size_t size() const { return entries_.size(); }
  // The size that a list needs to work: the entries kept behind a reader, and a window.
  [[nodiscard]] size_t least_size() const { return least_size_; }

  // Returns whether enough entries can be taken to make a batch worthwhile.
  [[nodiscard]] bool wants(size_t batch_count) const;
  // Returns the next entry to read, now in state kFetching; nullopt if the window has no room.
  [[nodiscard]] std::optional<Next> take();

  // Returns the records that will be taken soon, each once: within the next `limit_bytes` and the
  // next `limit_records`.
  [[nodiscard]] std::vector<uint64_t> take_coming(uint64_t limit_bytes, size_t limit_records);

  // Returns the records that take() returns next, at most so many.
  [[nodiscard]] std::vector<uint64_t> next_records(size_t limit) const;

  // Puts back the entry that was taken last, because it could not be read.
  void put_back(uint64_t index);
  // Sets the state of an entry that was taken; does nothing once the entry is done.
  void set_state(uint64_t index, State state);
  [[nodiscard]] State state(uint64_t index) const;

  // Notes that a reader asks for a record; `was_ready`: without waiting for storage. Returns
  // whether a hint that is still in the list names the record.
  bool note_read(uint64_t record, bool was_ready);

  void finish() { is_finished_ = true; }
  // Returns whether the client will send no more hints.
  [[nodiscard]] bool is_finished() const { return is_finished_; }
  // Returns whether no entry is left to be taken or read, even by readers that are behind others.
  [[nodiscard]] bool is_over() const;

  // Returns the records that are held, but were given up because no reader will come for them.
  [[nodiscard]] std::vector<uint64_t> take_forgotten() { return std::exchange(forgotten_, {}); }
  // Gives up held entries that readers have left out, and had passed at the previous call.
  void forget_left_out();

  [[nodiscard]] Tally take_tally();
  // Gives up all entries and returns how they ended.
  [[nodiscard]] Tally close();

 private:
  struct Entry {
    Hint hint;
    uint64_t size_bytes = 0;
    State state = State::kPending;
    bool is_asked_for = false;
  };

  [[nodiscard]] uint64_t end() const { return base_ + entries_.size(); }
  [[nodiscard]] Entry& entry(uint64_t index) {
    return entries_[static_cast<size_t>(index - base_)];
  }
  [[nodiscard]] const Entry& entry(uint64_t index) const {
    return entries_[static_cast<size_t>(index - base_)];
  }
  [[nodiscard]] std::optional<uint64_t> find(uint64_t record) const;
  [[nodiscard]] bool is_passed(uint64_t record) const;
  [[nodiscard]] bool has_window_room(uint64_t size_bytes) const;
  void jump_to(uint64_t index);
  void move_to(uint64_t position);
  void forget_front();

  const size_t window_records_;
  const uint64_t window_bytes_;
  const size_t limit_;  // of entries
  const size_t least_size_;
  std::deque<Entry> entries_;
  std::set<std::pair<uint64_t, uint64_t>> by_record_;  // (record, index)
  uint64_t base_ = 0;      // of the first entry
  uint64_t position_ = 0;
  uint64_t fetched_ = 0;   // the next to be taken
  uint64_t next_coming_ = 0;  // the next that take_coming() returns
  uint64_t ahead_bytes_ = 0;  // of [position, fetched)
  size_t since_marker_ = 0;
  uint64_t since_marker_bytes_ = 0;
  std::optional<uint64_t> candidate_;  // a read far ahead
  bool is_finished_ = false;
  Tally tally_;
  std::vector<uint64_t> forgotten_;
  uint64_t left_behind_ = 0;  // the position at the last forget_left_out()
};

}  // namespace ffrfs
