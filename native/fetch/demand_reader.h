// Serves units to readers that wait: from memory, from the page cache, or from storage.
//
//   find()    memory ─► page cache ─► nullptr         never waits
//   fetch()   storage, one operation for all readers of the unit ─► check ─► callbacks
//   arrive()  hands in a unit that was claimed in the table and read ahead of need; fetch()
//             waits for such a unit, too
//
// Thread-safe. Callbacks run in poll(). A fetch waits for room in the budget.

#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <utility>

#include "fetch/fetcher.h"
#include "fetch/unit.h"
#include "fetch/unit_table.h"
#include "io/read_queue.h"

namespace ffrfs {

class DemandReader {
 public:
  using Done = std::function<void(UnitPtr, std::exception_ptr)>;

  explicit DemandReader(Fetcher& fetcher);
  ~DemandReader();
  DemandReader(const DemandReader&) = delete;
  DemandReader& operator=(const DemandReader&) = delete;

  // Returns nullptr if the unit needs storage. `wanted`: how many of its bytes the reader asked
  // for. Throws ChecksumError.
  [[nodiscard]] UnitPtr find(const UnitPlan& plan, size_t wanted);
  // Fills `target` with the unit's bytes, if they are in the page cache (kFilled). kKnown: the unit
  // is in memory or being fetched. kMissing: neither, so the caller needs fetch_missing().
  enum class Cached { kFilled, kKnown, kMissing };
  [[nodiscard]] Cached find_cached(const UnitPlan& plan, std::span<std::byte> target);
  // The same as find(), but looks only in memory.
  [[nodiscard]] UnitPtr find_in_memory(const UnitPlan& plan, size_t wanted);

  // Waits for an entry of the table, whose type is T: calls `done` in poll(). Returns true if it is
  // neither held nor under way, so that the caller has to make it, and finish() it in the table.
  template <typename T, typename Taken>
  [[nodiscard]] bool wait_for(const UnitKey& key, Taken done) {
    UnitTable::Done waiter = [done = std::move(done)](const HeldPtr& held,
                                                      const std::exception_ptr& error) {
      done(std::static_pointer_cast<T>(held), error);
    };
    HeldPtr held;
    const UnitTable::Join join = table_.join(key, std::move(waiter), held);
    if (join == UnitTable::Join::kHeld) {  // it has arrived since find()
      port_.post([waiter = std::move(waiter), held] { waiter(held, nullptr); });
    }
    return join == UnitTable::Join::kFirst;
  }

  void fetch(const UnitPlan& plan, Done done) {
    if (wait_for<Unit>(plan.key(), std::move(done))) start_in_turn(plan);
  }
  // The same for a unit that find() was not called for.
  void fetch_missing(const UnitPlan& plan, Done done) {
    observe(plan, Found::kMissing);
    fetch(plan, std::move(done));
  }

  // Sets a function that is called with each result of find(), before find() returns. Must be set
  // before other threads use the reader.
  using Observer = std::function<void(const Extent& extent, Found found)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }
  // Sets a function that is called with each unit that storage gave to readers. Must be set before
  // other threads use the reader.
  using Clock = std::chrono::steady_clock;
  using Timer = std::function<void(size_t bytes, Clock::duration waited)>;
  void set_timer(Timer timer) { timer_ = std::move(timer); }

  // Records that `count` of the unit's `size` bytes were handed out. The unit is kept until all
  // were.
  void served(const UnitKey& key, size_t size, const UnitPtr& unit, size_t count);

  // Ends a UnitTable::claim(). Returns true if readers waited: they get the unit or the error in
  // poll(), and the unit is not held as read ahead.
  bool arrive(const UnitKey& key, const UnitPtr& unit, uint64_t owner,
              const std::exception_ptr& error);
  // Ends a claim() whose unit was not read for want of memory, threads or descriptors. Returns true
  // if readers waited: it is read for them.
  bool give_up(const UnitKey& key);
  // Reads every unit that readers wait for and that was claimed too long ago, so that a slow
  // claimer does not delay them. fetch() does the same for its own unit.
  void overtake();

  // The same as Volume::limit_cache(), except for units that were read ahead.
  void limit_cache(size_t limit_bytes);

  [[nodiscard]] Fetcher& fetcher() { return fetcher_; }
  [[nodiscard]] UnitTable& table() { return table_; }
  // Functions that are posted to the port run in poll().
  [[nodiscard]] ReadPort& port() { return port_; }
  size_t poll() { return port_.poll(); }
  void wait(int timeout_ms) const { port_.wait(timeout_ms); }

 private:
  void observe(const UnitPlan& plan, Found found) {
    if (observer_) observer_(plan.extent, found);
  }
  void start_in_turn(const UnitPlan& plan);
  void start(const UnitPlan& plan, Reservation memory);
  template <typename Step> void or_fail(const UnitPlan& plan, const Step& step);

  Fetcher& fetcher_;
  UnitTable table_;
  Observer observer_;
  Timer timer_;
  ReadPort port_;  // last, so that its reads end before the members above are destroyed
};

}  // namespace ffrfs
