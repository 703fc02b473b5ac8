// The one table of what the read path has, or is about to have. A unit is
//
//   fetching   all others that ask wait for it: one fetch, however many want it. One that was
//              claimed is being read ahead of need, for an owner
//   held       kept: a reader has taken a part of it, or it was made and may be used again;
//              the least recently used goes first
//              ahead: no reader has asked for it yet; the first that does takes it; the
//              oldest goes first
//
// and nothing else is known of it. Held bytes stay within the budget's accounts; the last
// that was kept stays however small its account is.
//
// Any thread. No callback runs here: who waited is returned to the caller. Locks: ours, then
// the budget's.
// Not here: reading (fetcher.h), what is read ahead (prefetcher.h).

#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fetch/budget.h"
#include "fetch/unit.h"
#include "stats/counters.h"

namespace ffrfs {

class UnitTable {
 public:
  using Clock = std::chrono::steady_clock;
  using Done = std::function<void(const HeldPtr&, std::exception_ptr)>;
  // What was claimed for so long is not waited for.
  static constexpr auto kPatience = std::chrono::milliseconds(200);

  UnitTable(Budget& budget, Counters& counters);

  struct Lookup {
    HeldPtr held;  // nullptr: it is not held
    bool was_ahead = false;
  };
  // Held, or being fetched.
  [[nodiscard]] bool knows(const UnitKey& key) const;
  // What is kept becomes the most recently used; what was read ahead is handed over.
  [[nodiscard]] Lookup find(const UnitKey& key);

  // kHeld: in `held`. kWaits: `done` will be among those that finish() or arrive() returns.
  // kFirst: the same, and the caller fetches it.
  enum class Join { kHeld, kWaits, kFirst };
  // `done` is taken unless it is held.
  [[nodiscard]] Join join(const UnitKey& key, Done&& done, HeldPtr& held);
  // The fetch has ended, well or not; those who have waited for it. `kept`, if there is any, is
  // kept from then on.
  [[nodiscard]] std::vector<Done> finish(const UnitKey& key, const HeldPtr& kept = nullptr);

  // Nothing happens if it is here, being fetched, or larger than can be kept.
  void keep(const UnitKey& key, const HeldPtr& held);
  void drop(const UnitKey& key);
  // Those who have waited for what has arrived have had it: it goes, unless one keeps it.
  void pass(const UnitKey& key);
  // It is probably not wanted again. Of these the last two stay: their buffers are used again
  // while the processor's caches hold them.
  void demote(const UnitKey& key);
  // What is beyond the accounts' limits goes, but for what was read ahead.
  void shrink_kept();

  // Ahead of need.
  struct Ahead {
    UnitPtr unit;
    uint64_t owner = 0;  // for whom it was read
  };
  // False: it is being fetched, or held. True: the caller reads it, and ends with arrive().
  [[nodiscard]] bool claim(const UnitPlan& plan);
  // The claimed unit is there, or (nullptr) cannot be. Those who have waited; if there are
  // none, it is held for `owner`. One who waits for a later fetch gets no error of this one.
  [[nodiscard]] std::vector<Done> arrive(const UnitKey& key, const UnitPtr& unit, uint64_t owner);
  // The claims that readers have waited for too long; from now on these are the caller's.
  [[nodiscard]] std::vector<UnitPlan> take_overdue();
  [[nodiscard]] bool is_ahead(const UnitKey& key) const;
  [[nodiscard]] bool has_ahead() const;
  [[nodiscard]] UnitPtr take_ahead(const UnitKey& key);
  // As if it had come at that time, before all others.
  void age(const UnitKey& key, Clock::time_point since);
  // Those that came before `begin`, or all of one owner, or of one owner one; the oldest, until
  // the account is within its limit. They are dropped; what they were.
  [[nodiscard]] std::vector<Ahead> expire(Clock::time_point begin);
  [[nodiscard]] std::vector<Ahead> drop_ahead(uint64_t owner);
  [[nodiscard]] std::vector<Ahead> drop_ahead(uint64_t owner, const UnitKey& key);
  [[nodiscard]] std::vector<Ahead> shrink_ahead();

 private:
  static constexpr size_t kDemotedMax = 2;
  struct Entry;
  struct Hash {
    [[nodiscard]] size_t operator()(const UnitKey& key) const {
      const uint64_t place = (uint64_t{key.shard} << 40) ^ key.record;
      const uint64_t what = (key.part << 3) ^ static_cast<uint64_t>(key.kind);
      return std::hash<uint64_t>()(place * 0x9e3779b97f4a7c15 + what * 0xc2b2ae3d27d4eb4f);
    }
  };
  using Entries = std::unordered_map<UnitKey, Entry, Hash>;
  using Node = Entries::value_type;   // stays where it is for as long as it is in the table
  using Order = std::list<Node*>;     // the first to go is the last
  struct Entry {
    HeldPtr held;  // nullptr: it is being fetched
    Account account = Account::kInFlight;  // where what is held is: kKept, kMetadata or kAhead
    Order::iterator place{};
    uint64_t owner = 0;
    Clock::time_point since{};  // it was claimed, or read ahead
    bool is_claimed = false;
    bool is_passing = false;  // kept for those who have waited, until they have had it
    UnitPlan plan{};  // of what was claimed
    std::vector<Done> waiting{};
  };

  [[nodiscard]] static Account account_of(const UnitKey& key) {
    const bool is_metadata =
        key.kind == UnitKind::kSubtree || key.kind == UnitKind::kFingerprints;
    return is_metadata ? Account::kMetadata : Account::kKept;
  }
  [[nodiscard]] Order& order(Account account) { return orders_[static_cast<size_t>(account)]; }
  void hold(Node& node, const HeldPtr& held, Account account);
  void keep_locked(const UnitKey& key, const HeldPtr& held);
  HeldPtr take(Node& node);
  [[nodiscard]] Ahead take_ahead(Node& node);
  [[nodiscard]] std::vector<Done> end_fetch(Node& node);
  void erase(const Node& node);
  void shrink(Account account, size_t left_min);

  Budget& budget_;
  Counters& counters_;
  mutable std::mutex mutex_;  // guards all below
  Entries entries_;
  std::array<Order, kAccountCount> orders_;
  std::deque<UnitKey> demoted_;  // latest last; some of them may be gone
};

}  // namespace ffrfs
