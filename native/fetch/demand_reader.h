// Units for readers that wait: from memory, from the page cache, or fetched from storage.
//
//   find()    memory ─► page cache ─► nullptr         never waits
//   fetch()   storage, one operation however many want the unit ─► check ─► callbacks
//   arrive()  what was claimed in the table and read ahead of need; fetch() waits for that
//             one, too
//
// Any thread. Callbacks run in poll(). A fetch waits for room in the budget.

#pragma once

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

  // nullptr: it takes storage. `wanted` of its bytes were asked for. Throws ChecksumError.
  [[nodiscard]] UnitPtr find(const UnitPlan& plan, size_t wanted);
  // Fills `target` with the unit's bytes, if they are in the page cache. kKnown: they are in
  // memory, or on their way. kMissing: neither, so fetch_missing() gets them.
  enum class Cached { kFilled, kKnown, kMissing };
  [[nodiscard]] Cached find_cached(const UnitPlan& plan, std::span<std::byte> target);
  // As find(), of what is in memory.
  [[nodiscard]] UnitPtr find_in_memory(const UnitPlan& plan, size_t wanted);

  void fetch(const UnitPlan& plan, Done done);
  // The same of what was not looked for by find().
  void fetch_missing(const UnitPlan& plan, Done done) {
    observe(plan, Found::kMissing);
    fetch(plan, std::move(done));
  }

  // Gets everything that find() was asked for, before find() returns. Set before
  // others use this.
  using Observer = std::function<void(const Extent& extent, Found found)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }

  // `count` of the unit's `size` bytes have been handed out; it is kept until all were.
  void served(const UnitKey& key, size_t size, const UnitPtr& unit, size_t count);

  // The end of a UnitTable::claim(). True: a reader has waited, and gets the unit, or why
  // there is none, in poll(); then it is no longer among those read ahead.
  bool arrive(const UnitKey& key, const UnitPtr& unit, uint64_t owner,
              const std::exception_ptr& error);
  // Reads by itself what others wait for and was claimed too long ago: whatever holds up
  // the claimer need not hold them up. fetch() does not wait for that either.
  void overtake();

  // As Volume::limit_cache(), but for what was read ahead.
  void limit_cache(size_t limit_bytes);

  [[nodiscard]] Fetcher& fetcher() { return fetcher_; }
  [[nodiscard]] UnitTable& table() { return table_; }
  // What is posted there runs in poll().
  [[nodiscard]] ReadPort& port() { return port_; }
  void poll() { port_.poll(); }
  void wait(int timeout_ms) const { port_.wait(timeout_ms); }

 private:
  void observe(const UnitPlan& plan, Found found) {
    if (observer_) observer_(plan.extent, found);
  }
  void start_in_turn(const UnitPlan& plan);

  Fetcher& fetcher_;
  UnitTable table_;
  Observer observer_;
  ReadPort port_;  // last: its reads end before the rest goes
};

}  // namespace ffrfs
