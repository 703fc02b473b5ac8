// The lists of hints of all clients: opens and drops lists, shares the room among them, and picks
// the next to serve.
//
// Many clients share the room and the reads: no list may starve another of hints (room()), nor of
// reads (serve()).
//
// Plain data: the owner must lock. Only any() is thread-safe.
// Not here: reading, and where the bytes go (prefetcher.h).

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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
  // Returns the size of a record in bytes; 0 if it should not be read.
  using SizeOf = std::function<uint64_t(uint64_t record)>;

  static constexpr size_t kListsMax = 64;
  // The limit of all lists together; beyond it each list may have HintList::least_size().
  static constexpr size_t kHintsMax = 65'536;

  // The first two are the window of each list; `batch_records` make a batch worthwhile. Counts in
  // `counters` how hints end.
  HintLists(size_t window_records, uint64_t window_bytes, size_t batch_records, SizeOf size_of,
            Counters& counters);

  // If there are kListsMax lists, erases the one of a client that has ended that was used longest
  // ago. Returns false if there was room; throws std::length_error if there is no such list.
  bool make_room();
  [[nodiscard]] ListId open();

  // The functions below do nothing if the list does not exist (any more).

  // Returns how many more hints the list takes from now on; hints beyond its room are dropped.
  size_t add(ListId id, std::span<const Hint> hints);
  [[nodiscard]] size_t room(ListId id) const;
  // Notes that the client has ended. `has_more`: some of its hints are still to be added. Returns
  // false if the list does not exist.
  bool finish(ListId id, bool has_more = false);
  bool drop(ListId id);
  [[nodiscard]] HintList::State state(ListId id, uint64_t index) const;
  void set_state(ListId id, uint64_t index, HintList::State state);

  struct Noted {
    bool is_hinted = false;  // a list names the record
    bool is_roomy = false;   // a list that was full has room for a batch
  };
  // Calls HintList::note_read() of all lists.
  Noted note_read(uint64_t record, bool was_ready);

  // Returns whether a list has a worthwhile batch to take; how many lists have.
  [[nodiscard]] bool wants() const;
  [[nodiscard]] size_t wanting_count() const;
  // Returns the records that batches of `limit` records will take: of each list, its share.
  [[nodiscard]] std::vector<uint64_t> coming(size_t limit) const;
  // Calls body(id, hints) for each list that has one, beginning after the list that was served
  // last, until `body` returns false.
  template <typename Body> void serve(const Body& body) {
    auto list = lists_.upper_bound(last_served_);
    for (size_t i = 0; i < lists_.size(); ++i, ++list) {
      if (list == lists_.end()) list = lists_.begin();
      if (!list->second.hints.wants(batch_records_)) continue;
      last_served_ = list->first;
      if (!body(list->first, list->second.hints)) return;
    }
  }

  // If a list of a client that has not ended wants a batch, erases, of the lists of clients that
  // have ended and that were not used since `then`, the one that was used longest ago, and returns
  // it.
  std::optional<ListId> drop_idle(Clock::time_point then);

  // See HintList::forget_left_out().
  void forget_left_out();
  // Erases lists that are over: all was read, or their clients have ended and they were not used
  // for `ttl`.
  // Returns false if there were none.
  bool expire(Clock::time_point now, Clock::duration ttl);

  struct Forgotten {
    ListId list;
    uint64_t record;
  };
  // Returns the records that are held for a list although no reader will come for them.
  [[nodiscard]] std::vector<Forgotten> take_forgotten() { return std::exchange(forgotten_, {}); }

  [[nodiscard]] bool empty() const { return lists_.empty(); }
  [[nodiscard]] size_t size() const { return lists_.size(); }
  [[nodiscard]] bool contains(ListId id) const { return lists_.contains(id); }
  template <typename Act> void for_each_id(Act&& act) const {
    for (const auto& list : lists_) act(list.first);
  }
  // Thread-safe. Returns whether there were any lists a moment ago.
  [[nodiscard]] bool any() const { return count_.load(std::memory_order_relaxed) > 0; }

 private:
  struct Client {
    HintList hints;
    Clock::time_point last_use;
    bool has_ended = false;  // though not all of its hints may be in the list
    bool is_full = false;  // until note_read() has reported room again
  };
  using Lists = std::map<ListId, Client>;

  Lists::iterator oldest_ended();  // else end()
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
