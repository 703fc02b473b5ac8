#include "fetch/demand_reader.h"

#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace ffrfs {

DemandReader::DemandReader(Fetcher& fetcher)
    : fetcher_(fetcher), table_(fetcher.budget(), fetcher.counters()), port_(fetcher.queue()) {
  // Posted and not called here: on_room() runs under the locks of the unit table and the budget.
  fetcher_.budget().set_on_room(
      [this] { port_.post([this] { fetcher_.budget().admit_waiting(); }); });
}

DemandReader::~DemandReader() { fetcher_.budget().set_on_room(nullptr); }

UnitPtr DemandReader::find(const UnitPlan& plan, size_t wanted) {
  if (UnitPtr unit = find_in_memory(plan, wanted)) return unit;
  UnitPtr unit = fetcher_.find_cached(plan);
  observe(plan, unit ? Found::kPageCache : Found::kMissing);
  return unit;
}

DemandReader::Cached DemandReader::find_cached(const UnitPlan& plan, std::span<std::byte> target) {
  if (table_.knows(plan.key())) return Cached::kKnown;
  if (!fetcher_.find_cached(plan, target)) return Cached::kMissing;
  observe(plan, Found::kPageCache);
  return Cached::kFilled;
}

UnitPtr DemandReader::find_in_memory(const UnitPlan& plan, size_t wanted) {
  const auto [held, was_ahead] = table_.find(plan.key());
  if (!held) return nullptr;
  fetcher_.counters().bytes_memory.fetch_add(wanted, std::memory_order_relaxed);
  observe(plan, was_ahead ? Found::kPrefetched : Found::kKept);
  return std::static_pointer_cast<Unit>(held);
}

void DemandReader::start_in_turn(const UnitPlan& plan) {
  or_fail(plan, [this, &plan] {
    fetcher_.budget().admit(fetcher_.memory_for(plan), [this, plan](Reservation memory) {
      or_fail(plan, [this, &plan, &memory] { start(plan, std::move(memory)); });
    });
  });
}

void DemandReader::start(const UnitPlan& plan, Reservation memory) {
  const auto begin = Clock::now();
  fetcher_.start(
      port_, plan, std::move(memory),
      [this, key = plan.key(), begin](const UnitPtr& unit, const std::exception_ptr& error) {
    if (unit && timer_) timer_(unit->bytes.size(), Clock::now() - begin);
    for (const auto& done : table_.finish(key)) done(unit, error);
  });
}

// Runs a step of a fetch. Without memory for it, all readers that wait get the error, because no
// other thread would end the fetch.
template <typename Step> void DemandReader::or_fail(const UnitPlan& plan, const Step& step) {
  try {
    step();
  } catch (const std::bad_alloc&) {
    for (const auto& done : table_.finish(plan.key())) done(nullptr, std::current_exception());
  }
}

bool DemandReader::arrive(const UnitKey& key, const UnitPtr& unit, uint64_t owner,
                          const std::exception_ptr& error) {
  auto waiting = table_.arrive(key, unit, owner);
  if (waiting.empty()) return false;
  const auto give = [this, key, unit, error](const std::vector<UnitTable::Done>& to) {
    for (const auto& done : to) done(unit, error);
    table_.pass(key);
  };
  std::shared_ptr<std::vector<UnitTable::Done>> shared;
  try {
    shared = std::make_shared<std::vector<UnitTable::Done>>(std::move(waiting));
    port_.post([give, shared] { give(*shared); });
  } catch (const std::bad_alloc&) {  // no memory to post it
    give(shared ? *shared : waiting);
  }
  return true;
}

bool DemandReader::give_up(const UnitKey& key) {
  const auto plan = table_.give_up(key);
  if (plan) start_in_turn(*plan);
  return plan.has_value();
}

void DemandReader::overtake() {
  for (const UnitPlan& plan : table_.take_overdue()) start_in_turn(plan);
}

void DemandReader::served(const UnitKey& key, size_t size, const UnitPtr& unit, size_t count) {
  const size_t total = unit->served_bytes.fetch_add(count, std::memory_order_relaxed) + count;
  if (total < size) {
    table_.keep(key, unit);
    // Another thread may have handed out the rest before it was kept.
    if (unit->served_bytes.load(std::memory_order_relaxed) >= size) table_.drop(key);
  } else if (count < size) {
    table_.drop(key);
  }
}

void DemandReader::limit_cache(size_t limit_bytes) {
  fetcher_.limit_cache(limit_bytes);
  table_.shrink_kept();
}

}  // namespace ffrfs
