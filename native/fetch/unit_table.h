// The one table of units that the read path holds or is fetching. A unit is
//
//   fetching   all readers wait for one fetch. A claimed unit is being read ahead of need, for
//              an owner
//   held       kept: a reader has taken a part of it, or it was made and may be used again;
//              the least recently used is dropped first
//              ahead: no reader has asked for it yet; the first that asks takes it; the
//              oldest is dropped first
//
// or it is not in the table. Held bytes stay within the budget's accounts; the unit that was kept
// last stays however small its account is.
//
// Thread-safe. Runs no callbacks: they are returned to the caller. Lock order: this, then the
// budget.
// Not here: reading (fetcher.h), which units are read ahead (prefetcher.h).

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
#include <optional>
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
  // Readers do not wait for a unit that was claimed longer ago than this.
  static constexpr auto kPatience = std::chrono::milliseconds(200);

  UnitTable(Budget& budget, Counters& counters);

  struct Lookup {
    HeldPtr held;  // nullptr: it is not held
    bool was_ahead = false;
  };
  // Returns whether the unit is held or being fetched.
  [[nodiscard]] bool knows(const UnitKey& key) const;
  // Looks a unit up. A kept one becomes the most recently used; one read ahead is taken out.
  [[nodiscard]] Lookup find(const UnitKey& key);

  // kHeld: the unit is in `held`. kWaits: finish() or arrive() will return `done`. kFirst: the
  // same, and the caller must fetch the unit.
  enum class Join { kHeld, kWaits, kFirst };
  // `done` is moved from unless the result is kHeld.
  [[nodiscard]] Join join(const UnitKey& key, Done&& done, HeldPtr& held);
  // Ends a fetch, successful or not, and returns the callbacks of its waiters. `kept`, if not null,
  // is kept from then on.
  [[nodiscard]] std::vector<Done> finish(const UnitKey& key, const HeldPtr& kept = nullptr);

  // Does nothing if the unit is in the table already, larger than the account, or memory is short.
  void keep(const UnitKey& key, const HeldPtr& held);
  void drop(const UnitKey& key);
  // All waiters have been served: drops the unit, unless one of them kept it.
  void pass(const UnitKey& key);
  // Marks a unit as unlikely to be read again. The last two stay allocated, because their buffers
  // are still in the CPU cache.
  void demote(const UnitKey& key);
  // Drops kept units until the accounts are within their limits; not those read ahead.
  void shrink_kept();

  // A unit that was read ahead of need.
  struct Ahead {
    UnitPtr unit;
    uint64_t owner = 0;  // for whom it was read
  };
  // Returns true if the unit is not in the table: then the caller reads it, and ends with arrive().
  [[nodiscard]] bool claim(const UnitPlan& plan);
  // Ends a claim: the unit has come, or (nullptr) cannot be read. Returns the callbacks of its
  // waiters; without any, the unit is held for `owner`. Waiters of a later fetch do not get this
  // error.
  [[nodiscard]] std::vector<Done> arrive(const UnitKey& key, const UnitPtr& unit, uint64_t owner);
  // Ends a claim whose unit is not read; if readers wait for it, returns the plan that the caller
  // now has to fetch for them.
  [[nodiscard]] std::optional<UnitPlan> give_up(const UnitKey& key);
  // Returns the claims that readers have waited for too long; the caller now has to fetch these.
  [[nodiscard]] std::vector<UnitPlan> take_overdue();
  [[nodiscard]] bool is_ahead(const UnitKey& key);
  [[nodiscard]] bool has_ahead() const;
  [[nodiscard]] UnitPtr take_ahead(const UnitKey& key);
  // Makes a unit read ahead the oldest: as if it had come at `since`, before all others.
  void age(const UnitKey& key, Clock::time_point since);
  // Each drops units read ahead and returns them: those that came before `begin`; all of an owner;
  // one of an owner; or the oldest, until the account is within its limit.
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
  using Node = Entries::value_type;   // its address is stable while it is in the table
  using Order = std::list<Node*>;     // the last is dropped first
  struct Entry {
    HeldPtr held;  // nullptr: it is being fetched
    Account account = Account::kInFlight;  // of `held`: kKept, kMetadata or kAhead
    Order::iterator place{};
    uint64_t owner = 0;
    Clock::time_point since{};  // when it was claimed, or read ahead
    bool is_claimed = false;
    bool is_passing = false;  // kept for its waiters until they have been served
    UnitPlan plan{};  // of the claim
    std::vector<Done> waiting{};
  };

  [[nodiscard]] static Account account_of(const UnitKey& key) {
    const bool is_metadata = key.kind == UnitKind::kSubtree || key.kind == UnitKind::kFingerprints;
    return is_metadata ? Account::kMetadata : Account::kKept;
  }
  [[nodiscard]] Order& order(Account account) { return orders_[static_cast<size_t>(account)]; }
  [[nodiscard]] Node* held_in(Account account, const UnitKey& key);
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
  std::deque<UnitKey> demoted_;  // latest last; some may no longer be held
};

}  // namespace ffrfs
