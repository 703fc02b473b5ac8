// What one reader says that it will read, in order, and how far it has come.
//
//   index     0 ........ base ........ position ........ fetched ........ end
//             forgotten  │ behind: may  │ in the window:  │ will be taken
//                        │ still come   │ taken           │ when its turn comes
//
// The position is behind the farthest record of the window that was asked for. Readers
// need not keep to the order strictly (several share it), nor begin at its beginning: two
// reads far ahead, near each other, move the window there.
//
// Plain data: its owner guards it.

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
    kPending,   // its turn has not come
    kFetching,
    kHeld,      // in memory
    kPushed,    // with the kernel
    kDone,      // asked for, or given up
  };
  // What became of hints, since they were last taken.
  struct Tally {
    uint64_t hit_count = 0;      // ready when a reader came
    uint64_t late_count = 0;     // asked for before
    uint64_t dropped_count = 0;  // given up unread
  };
  struct Next {
    Hint hint;
    uint64_t index = 0;
    bool is_marker = false;  // not to be pushed: its READ is to show where the reader is
  };

  HintList(size_t window_records, uint64_t window_bytes);

  void add(const Hint& hint, uint64_t size_bytes);
  // How many more it takes.
  [[nodiscard]] size_t room() const;
  [[nodiscard]] size_t size() const { return entries_.size(); }
  // With fewer it could not do its work: what is kept behind a reader, and a window.
  [[nodiscard]] size_t least_size() const { return least_size_; }

  // Whether there is enough to take for it to be worth while.
  [[nodiscard]] bool wants(size_t batch_count) const;
  // The next to be read, now in state kFetching; nullopt: it is not time.
  [[nodiscard]] std::optional<Next> take();

  // The records behind those that were taken, up to so many bytes of them, that it has not told
  // before: their turn comes soon.
  [[nodiscard]] std::vector<uint64_t> take_coming(uint64_t limit_bytes);

  // It was the last to be taken, and could not be.
  void put_back(uint64_t index);
  // Of a hint that was taken; nothing happens once it is done.
  void set_state(uint64_t index, State state);
  [[nodiscard]] State state(uint64_t index) const;

  // A reader asks for a record; `was_ready`: it need not wait for storage. False: no hint
  // names it, none that is still known.
  bool note_read(uint64_t record, bool was_ready);

  void finish() { is_finished_ = true; }
  // No more will come.
  [[nodiscard]] bool is_finished() const { return is_finished_; }
  // Nothing is left to be taken, nor to be asked for: also by readers who are behind others.
  [[nodiscard]] bool is_over() const;

  // The records of those that are held though no reader will come for them: they are given up.
  [[nodiscard]] std::vector<uint64_t> take_forgotten() { return std::exchange(forgotten_, {}); }
  // Those that readers have left out, and had passed when this was called the last time.
  void forget_left_out();

  [[nodiscard]] Tally take_tally();
  // Nothing more becomes of it: counts what is left.
  [[nodiscard]] Tally close();

 private:
  struct Entry {
    Hint hint;
    uint64_t size_bytes = 0;
    State state = State::kPending;
    bool is_asked_for = false;
  };

  [[nodiscard]] uint64_t end() const { return base_ + entries_.size(); }
  [[nodiscard]] Entry& entry(uint64_t index) { return entries_[static_cast<size_t>(index - base_)]; }
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
  uint64_t told_ = 0;      // the next that take_coming() has not told
  uint64_t ahead_bytes_ = 0;  // of [position, fetched)
  size_t since_marker_ = 0;
  uint64_t since_marker_bytes_ = 0;
  std::optional<uint64_t> candidate_;  // a read far ahead
  bool is_finished_ = false;
  Tally tally_;
  std::vector<uint64_t> forgotten_;
  uint64_t left_behind_ = 0;  // the position when that was last looked for
};

}  // namespace ffrfs
