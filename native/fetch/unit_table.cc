#include "fetch/unit_table.h"

#include <new>
#include <utility>

namespace ffrfs {

UnitTable::UnitTable(Budget& budget, Counters& counters) : budget_(budget), counters_(counters) {}

bool UnitTable::knows(const UnitKey& key) const {
  const std::lock_guard lock(mutex_);
  return entries_.contains(key);
}

UnitTable::Lookup UnitTable::find(const UnitKey& key) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry == entries_.end() || !entry->second.held) return {};
  const Account account = entry->second.account;
  if (account == Account::kAhead) return {take(*entry), true};
  order(account).splice(order(account).begin(), order(account), entry->second.place);
  return {entry->second.held, false};
}

UnitTable::Join UnitTable::join(const UnitKey& key, Done&& done, HeldPtr& held) {
  const std::lock_guard lock(mutex_);
  auto [found, is_new] = entries_.try_emplace(key);
  Entry& entry = found->second;
  if (entry.held) {
    held = entry.account == Account::kAhead ? take(*found) : entry.held;
    return Join::kHeld;
  }
  try {
    entry.waiting.push_back(std::move(done));
  } catch (const std::bad_alloc&) {
    if (is_new) erase(*found);  // else it would look as if it were being fetched
    throw;
  }
  if (is_new) {
    counters_.queue_depth.fetch_add(1, std::memory_order_relaxed);
    return Join::kFirst;
  }
  if (!entry.is_claimed || Clock::now() - entry.since <= kPatience) return Join::kWaits;
  entry.is_claimed = false;
  return Join::kFirst;
}

std::vector<UnitTable::Done> UnitTable::finish(const UnitKey& key, const HeldPtr& kept) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  // A claimed fetch that was overtaken may still have arrived first.
  if (entry == entries_.end() || entry->second.held) return {};
  std::vector<Done> waiting = end_fetch(*entry);
  if (kept) keep_locked(key, kept);
  return waiting;
}

// end_fetch() and all private functions need the lock.
std::vector<UnitTable::Done> UnitTable::end_fetch(Node& node) {
  counters_.queue_depth.fetch_sub(1, std::memory_order_relaxed);
  std::vector<Done> waiting = std::move(node.second.waiting);
  erase(node);
  return waiting;
}

void UnitTable::keep(const UnitKey& key, const HeldPtr& held) {
  const std::lock_guard lock(mutex_);
  keep_locked(key, held);
}

void UnitTable::keep_locked(const UnitKey& key, const HeldPtr& held) {
  const Account account = account_of(key);
  const bool is_bounded = account == Account::kKept;
  if (is_bounded && held->memory.size() > budget_.first_limit(account)) return;
  try {
    const auto [entry, is_new] = entries_.try_emplace(key);
    entry->second.is_passing = false;
    if (!is_new) return;
    hold(*entry, held, account);
  } catch (const std::bad_alloc&) {  // not kept; readers that wait still get it
    return;
  }
  shrink(account, 1);
}

void UnitTable::drop(const UnitKey& key) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry != entries_.end() && entry->second.held) take(*entry);
}

// Needs the lock. Returns nullptr if the unit is not held, or in another account.
UnitTable::Node* UnitTable::held_in(Account account, const UnitKey& key) {
  const auto entry = entries_.find(key);
  const bool is_held =
      entry != entries_.end() && entry->second.held && entry->second.account == account;
  return is_held ? &*entry : nullptr;
}

void UnitTable::pass(const UnitKey& key) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry != entries_.end() && entry->second.is_passing) take(*entry);
}

void UnitTable::demote(const UnitKey& key) {
  const std::lock_guard lock(mutex_);
  std::erase(demoted_, key);
  demoted_.push_back(key);
  if (demoted_.size() <= kDemotedMax) return;
  if (Node* const kept = held_in(Account::kKept, demoted_.front())) take(*kept);
  demoted_.pop_front();
}

void UnitTable::shrink_kept() {
  const std::lock_guard lock(mutex_);
  shrink(Account::kKept, 0);
  shrink(Account::kMetadata, 1);
}

bool UnitTable::claim(const UnitPlan& plan) {
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = entries_.try_emplace(plan.key());
  if (!is_new) return false;
  entry->second.is_claimed = true;
  entry->second.since = Clock::now();
  entry->second.plan = plan;
  counters_.queue_depth.fetch_add(1, std::memory_order_relaxed);
  return true;
}

std::vector<UnitTable::Done> UnitTable::arrive(const UnitKey& key, const UnitPtr& unit,
                                               uint64_t owner) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry == entries_.end() || entry->second.held) return {};
  if (!entry->second.is_claimed && !unit) return {};  // another fetch is under way
  std::vector<Done> waiting = end_fetch(*entry);
  if (!unit) return waiting;
  try {
    const auto again = entries_.try_emplace(key).first;
    again->second.owner = owner;
    again->second.since = Clock::now();
    // Until readers that wait have it, later readers must find the unit here.
    again->second.is_passing = !waiting.empty();
    hold(*again, unit, waiting.empty() ? Account::kAhead : Account::kKept);
  } catch (const std::bad_alloc&) {  // not kept; waiting readers get it
  }
  return waiting;
}

std::optional<UnitPlan> UnitTable::give_up(const UnitKey& key) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry == entries_.end() || !entry->second.is_claimed || entry->second.held) {
    return std::nullopt;
  }
  entry->second.is_claimed = false;
  if (!entry->second.waiting.empty()) return entry->second.plan;
  (void)end_fetch(*entry);
  return std::nullopt;
}

std::vector<UnitPlan> UnitTable::take_overdue() {
  std::vector<UnitPlan> plans;
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : entries_) {
    const bool is_overdue = entry.is_claimed && !entry.held && !entry.waiting.empty() &&
                            Clock::now() - entry.since > kPatience;
    if (!is_overdue) continue;
    try {
      plans.push_back(entry.plan);
    } catch (const std::bad_alloc&) {
      break;  // the next call returns the others
    }
    entry.is_claimed = false;
  }
  return plans;
}

bool UnitTable::is_ahead(const UnitKey& key) {
  const std::lock_guard lock(mutex_);
  return held_in(Account::kAhead, key) != nullptr;
}

bool UnitTable::has_ahead() const {
  const std::lock_guard lock(mutex_);
  return !orders_[static_cast<size_t>(Account::kAhead)].empty();
}

UnitPtr UnitTable::take_ahead(const UnitKey& key) {
  const std::lock_guard lock(mutex_);
  Node* const ahead = held_in(Account::kAhead, key);
  return ahead != nullptr ? take_ahead(*ahead).unit : nullptr;
}

void UnitTable::age(const UnitKey& key, Clock::time_point since) {
  const std::lock_guard lock(mutex_);
  Node* const unit = held_in(Account::kAhead, key);
  if (unit == nullptr) return;
  unit->second.since = since;
  Order& ahead = order(Account::kAhead);
  ahead.splice(ahead.end(), ahead, unit->second.place);
}

std::vector<UnitTable::Ahead> UnitTable::expire(Clock::time_point begin) {
  std::vector<Ahead> dropped;
  const std::lock_guard lock(mutex_);
  const Order& ahead = order(Account::kAhead);
  while (!ahead.empty() && ahead.back()->second.since < begin) {
    dropped.push_back(take_ahead(*ahead.back()));
  }
  return dropped;
}

std::vector<UnitTable::Ahead> UnitTable::drop_ahead(uint64_t owner) {
  std::vector<Ahead> dropped;
  const std::lock_guard lock(mutex_);
  const Order& ahead = order(Account::kAhead);
  for (auto place = ahead.begin(); place != ahead.end();) {
    Node& node = **place++;
    if (node.second.owner == owner) dropped.push_back(take_ahead(node));
  }
  return dropped;
}

std::vector<UnitTable::Ahead> UnitTable::drop_ahead(uint64_t owner, const UnitKey& key) {
  std::vector<Ahead> dropped;
  const std::lock_guard lock(mutex_);
  Node* const ahead = held_in(Account::kAhead, key);
  if (ahead != nullptr && ahead->second.owner == owner) dropped.push_back(take_ahead(*ahead));
  return dropped;
}

std::vector<UnitTable::Ahead> UnitTable::shrink_ahead() {
  std::vector<Ahead> dropped;
  const std::lock_guard lock(mutex_);
  const Order& ahead = order(Account::kAhead);
  while (!ahead.empty() && budget_.used(Account::kAhead) > budget_.limit(Account::kAhead)) {
    dropped.push_back(take_ahead(*ahead.back()));
  }
  return dropped;
}

void UnitTable::hold(Node& node, const HeldPtr& held, Account account) {
  try {
    node.second.place = order(account).insert(order(account).begin(), &node);
  } catch (...) {
    erase(node);  // else it would look as if it were being fetched
    throw;
  }
  held->memory.move_to(account);
  node.second.held = held;
  node.second.account = account;
}

// Its users may still hold the bytes, so until they are freed they count as in flight.
HeldPtr UnitTable::take(Node& node) {
  HeldPtr held = std::move(node.second.held);
  held->memory.move_to(Account::kInFlight);
  order(node.second.account).erase(node.second.place);
  erase(node);
  return held;
}

UnitTable::Ahead UnitTable::take_ahead(Node& node) {
  const uint64_t owner = node.second.owner;
  return {std::static_pointer_cast<Unit>(take(node)), owner};
}

// Erases by a copy of the key, because the node's own key is destroyed with it.
void UnitTable::erase(const Node& node) { entries_.erase(UnitKey(node.first)); }

void UnitTable::shrink(Account account, size_t left_min) {
  const Order& held = order(account);
  while (held.size() > left_min && budget_.used(account) > budget_.limit(account)) {
    take(*held.back());
  }
}

}  // namespace ffrfs
