#include "prefetch/hint_lists.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace ffrfs {

HintLists::HintLists(size_t window_records, uint64_t window_bytes, size_t batch_records,
                     SizeOf size_of, Counters& counters)
    : window_records_(window_records),
      window_bytes_(window_bytes),
      batch_records_(batch_records),
      size_of_(std::move(size_of)),
      counters_(counters) {}

bool HintLists::make_room() {
  if (lists_.size() < kListsMax) return false;
  // A list that only waits for readers makes room.
  const auto oldest = oldest_ended();
  if (oldest == lists_.end()) throw std::length_error("too many lists of hints");
  erase(oldest);
  return true;
}

HintLists::Lists::iterator HintLists::oldest_ended() {
  const auto oldest = std::ranges::min_element(lists_, {}, [](const auto& list) {
    return list.second.has_ended ? list.second.last_use : Clock::time_point::max();
  });
  return oldest != lists_.end() && oldest->second.has_ended ? oldest : lists_.end();
}

std::optional<HintLists::ListId> HintLists::drop_idle(Clock::time_point then) {
  const auto oldest = oldest_ended();
  if (oldest == lists_.end() || oldest->second.last_use >= then) return std::nullopt;
  const bool is_wanted = std::ranges::any_of(lists_, [this](const auto& list) {
    return !list.second.has_ended && list.second.hints.wants(batch_records_);
  });
  if (!is_wanted) return std::nullopt;
  const ListId id = oldest->first;
  erase(oldest);
  return id;
}

HintLists::ListId HintLists::open() {
  const ListId id = next_++;
  lists_.emplace(id, Client{HintList(window_records_, window_bytes_), Clock::now()});
  count_.store(lists_.size(), std::memory_order_relaxed);
  return id;
}

size_t HintLists::add(ListId id, std::span<const Hint> hints) {
  const auto found = lists_.find(id);
  if (found == lists_.end()) return hints.size();  // the list has expired: ignore the hints
  Client& client = found->second;
  counters_.prefetch_hinted.fetch_add(hints.size(), std::memory_order_relaxed);
  const size_t taken = std::min(hints.size(), room_of(client.hints));
  for (const Hint& hint : hints.first(taken)) client.hints.add(hint, size_of_(hint.record));
  counters_.prefetch_dropped.fetch_add(hints.size() - taken, std::memory_order_relaxed);
  client.last_use = Clock::now();
  const size_t room = room_of(client.hints);
  client.is_full = room == 0;
  return room;
}

// The first clients may fill their lists, but must not starve the others.
size_t HintLists::room_of(const HintList& hints) const {
  size_t total = 0;
  for (const auto& [id, client] : lists_) total += client.hints.size();
  const size_t own = hints.least_size() - std::min(hints.least_size(), hints.size());
  return std::min(hints.room(), std::max(own, kHintsMax - std::min(kHintsMax, total)));
}

size_t HintLists::room(ListId id) const {
  const auto found = lists_.find(id);
  return found == lists_.end() ? 0 : room_of(found->second.hints);
}

bool HintLists::finish(ListId id, bool has_more) {
  const auto found = lists_.find(id);
  if (found == lists_.end()) return false;
  if (!has_more) found->second.hints.finish();
  found->second.has_ended = true;
  found->second.last_use = Clock::now();
  return true;
}

bool HintLists::drop(ListId id) {
  const auto found = lists_.find(id);
  if (found == lists_.end()) return false;
  erase(found);
  return true;
}

HintLists::Lists::iterator HintLists::erase(Lists::iterator list) {
  count(list->second.hints.close());
  const auto next = lists_.erase(list);
  count_.store(lists_.size(), std::memory_order_relaxed);
  return next;
}

HintList::State HintLists::state(ListId id, uint64_t index) const {
  const auto list = lists_.find(id);
  return list == lists_.end() ? HintList::State::kDone : list->second.hints.state(index);
}

void HintLists::set_state(ListId id, uint64_t index, HintList::State state) {
  const auto list = lists_.find(id);
  if (list != lists_.end()) list->second.hints.set_state(index, state);
}

HintLists::Noted HintLists::note_read(uint64_t record, bool was_ready) {
  Noted noted;
  for (auto& [id, client] : lists_) {
    if (!client.hints.note_read(record, was_ready)) continue;
    noted.is_hinted = true;
    client.last_use = Clock::now();
    settle(id, client.hints);
    if (client.is_full && room_of(client.hints) >= batch_records_) {
      client.is_full = false;
      noted.is_roomy = true;
    }
  }
  return noted;
}

bool HintLists::wants() const {
  return std::ranges::any_of(
      lists_, [this](const auto& list) { return list.second.hints.wants(batch_records_); });
}

size_t HintLists::wanting_count() const {
  return static_cast<size_t>(std::ranges::count_if(
      lists_, [this](const auto& list) { return list.second.hints.wants(batch_records_); }));
}

std::vector<uint64_t> HintLists::coming(size_t limit) const {
  std::vector<uint64_t> records;
  const size_t share = limit / std::max<size_t>(wanting_count(), 1) + 1;
  for (const auto& [id, client] : lists_) {
    if (!client.hints.wants(batch_records_)) continue;
    std::ranges::copy(client.hints.next_records(share), std::back_inserter(records));
  }
  return records;
}

void HintLists::forget_left_out() {
  for (auto& [id, client] : lists_) {
    client.hints.forget_left_out();
    settle(id, client.hints);
  }
}

bool HintLists::expire(Clock::time_point now, Clock::duration ttl) {
  const size_t before = lists_.size();
  for (auto list = lists_.begin(); list != lists_.end();) {
    const Client& client = list->second;
    const bool is_over =
        client.hints.is_over() || (client.has_ended && now - client.last_use > ttl);
    list = is_over ? erase(list) : std::next(list);
  }
  return lists_.size() < before;
}

// Counts how the list's hints have ended, and collects the records that it has given up.
void HintLists::settle(ListId id, HintList& hints) {
  count(hints.take_tally());
  for (const uint64_t record : hints.take_forgotten()) forgotten_.push_back({id, record});
}

void HintLists::count(const HintList::Tally& tally) {
  counters_.prefetch_hit.fetch_add(tally.hit_count, std::memory_order_relaxed);
  counters_.prefetch_late.fetch_add(tally.late_count, std::memory_order_relaxed);
  counters_.prefetch_dropped.fetch_add(tally.dropped_count, std::memory_order_relaxed);
}

}  // namespace ffrfs
