// The lists of hints of all clients: which there are, how much each may hold, who is next.
//
// Many clients share what there is: no list may starve another of hints (room()), nor of
// reads (serve()).
//
// Plain data: its owner guards it. But any() may be asked by any thread.
// Not here: what is read, and where it goes (prefetcher.h).

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "prefetch/hint.h"
#include "prefetch/hint_list.h"
#include "stats/counters.h"

namespace ffrfs {

class HintLists {
 public:
  using ListId = uint64_t;
  using Clock = std::chrono::steady_clock;
  // Of a record, in bytes; 0: nothing of it is to be read.
  using SizeOf = std::function<uint64_t(uint64_t record)>;

  static constexpr size_t kListsMax = 64;
  // In all lists together; beyond that each may have HintList::least_size().
  static constexpr size_t kHintsMax = 65'536;

  // The window of each list; `batch_records` are worth one batch. Counts what becomes of
  // hints.
  HintLists(size_t window_records, uint64_t window_bytes, size_t batch_records, SizeOf size_of,
            Counters& counters);

  // Erases the list that is finished and was used longest ago, if there are kListsMax. False:
  // there was room. Throws std::length_error: none is finished.
  bool make_room();
  [[nodiscard]] ListId open();

  // The functions below do nothing if there is no such list (any more).

  // How many more the list takes from now on; what is beyond is dropped.
  size_t add(ListId id, std::span<const Hint> hints);
  [[nodiscard]] size_t room(ListId id) const;
  // False: there is no such list.
  bool finish(ListId id);
  bool drop(ListId id);
  [[nodiscard]] HintList::State state(ListId id, uint64_t index) const;
  void set_state(ListId id, uint64_t index, HintList::State state);

  struct Noted {
    bool is_hinted = false;  // a list names the record
    bool is_roomy = false;   // a list that was full has room for a batch
  };
  // As HintList::note_read(), for all lists.
  Noted note_read(uint64_t record, bool was_ready);

  // Whether one of them has something to take that is worth a batch; how many have.
  [[nodiscard]] bool wants() const;
  [[nodiscard]] size_t wanting_count() const;
  // Calls body(id, hints) for each that has, beginning after the one that was served last,
  // until it returns false.
  template <typename Body>
  void serve(const Body& body) {
    auto list = lists_.upper_bound(last_served_);
    for (size_t i = 0; i < lists_.size(); ++i, ++list) {
      if (list == lists_.end()) list = lists_.begin();
      if (!list->second.hints.wants(batch_records_)) continue;
      last_served_ = list->first;
      if (!body(list->first, list->second.hints)) return;
    }
  }

  // See HintList::forget_left_out().
  void forget_left_out();
  // Erases those from which nothing is to be expected any more: all was read, or no more
  // hints will come and none was used for `ttl`. False: there are none.
  bool expire(Clock::time_point now, Clock::duration ttl);

  struct Forgotten {
    ListId list;
    uint64_t record;
  };
  // What is held for a list though no reader will come for it.
  [[nodiscard]] std::vector<Forgotten> take_forgotten() { return std::exchange(forgotten_, {}); }

  [[nodiscard]] bool empty() const { return lists_.empty(); }
  [[nodiscard]] bool contains(ListId id) const { return lists_.contains(id); }
  template <typename Act>
  void for_each_id(Act&& act) const {
    for (const auto& list : lists_) act(list.first);
  }
  // Any thread: whether there are any, as of a moment ago.
  [[nodiscard]] bool any() const { return count_.load(std::memory_order_relaxed) > 0; }

 private:
  struct Client {
    HintList hints;
    Clock::time_point last_use;
    bool is_full = false;  // until note_read() has told that it is not
  };
  using Lists = std::map<ListId, Client>;

  Lists::iterator erase(Lists::iterator list);
  [[nodiscard]] size_t room_of(const HintList& hints) const;
  void settle(ListId id, HintList& hints);
  void count(const HintList::Tally& tally);

  const size_t window_records_;
  const uint64_t window_bytes_;
  const size_t batch_records_;
  const SizeOf size_of_;
  Counters& counters_;
  Lists lists_;
  std::atomic<size_t> count_{0};
  ListId next_ = 1;
  ListId last_served_ = 0;
  std::vector<Forgotten> forgotten_;
};

}  // namespace ffrfs
