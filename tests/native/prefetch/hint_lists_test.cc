// native/prefetch: the lists of many clients side by side. hint_list_test.cc tests a single list,
// prefetcher_test.cc all of them together with reads.

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <vector>

#include "prefetch/hint_lists.h"
#include "stats/counters.h"

using namespace ffrfs;
using namespace std::chrono_literals;

namespace {

using ListId = HintLists::ListId;

constexpr size_t kWindow = 64;
constexpr size_t kBatch = 32;
constexpr size_t kLeast = 3 * kWindow;  // HintList::least_size()

std::vector<Hint> hints(uint64_t first, size_t count) {
  std::vector<Hint> all;
  for (uint64_t record = first; record < first + count; ++record) all.push_back({.record = record});
  return all;
}

struct Rig {
  Counters counters;
  HintLists lists{kWindow, uint64_t{1} << 40, kBatch, [](uint64_t) { return uint64_t{1}; },
                  counters};

  // Return the lists in the order in which they are served; each gives all that its window has room
  // for.
  std::vector<ListId> serve() {
    std::vector<ListId> served;
    lists.serve([&](ListId id, HintList& list) {
      while (list.take()) {
      }
      served.push_back(id);
      return true;
    });
    return served;
  }
};

}  // namespace

TEST_CASE("the first lists may fill up, and each later list still has room for a window") {
  Rig rig;
  std::vector<ListId> full;
  size_t total = 0;
  while (total < HintLists::kHintsMax) {
    const ListId list = rig.lists.open();
    const size_t room = rig.lists.room(list);
    REQUIRE(room > kLeast);
    CHECK(rig.lists.add(list, hints(0, room)) == 0);
    total += room;
    full.push_back(list);
  }
  CHECK(total == HintLists::kHintsMax);
  const ListId late = rig.lists.open();
  CHECK(rig.lists.room(late) == kLeast);
  CHECK(rig.lists.add(late, hints(0, kLeast + 10)) == 0);
  CHECK(rig.counters.prefetch_hinted == total + kLeast + 10);
  CHECK(rig.counters.prefetch_dropped == 10);
  for (const ListId list : full) CHECK(rig.lists.drop(list));
  CHECK(rig.lists.room(late) > kLeast);
}

TEST_CASE("serving goes on with the list after the one that was served last") {
  Rig rig;
  std::vector<ListId> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(rig.lists.open());
    (void)rig.lists.add(ids.back(), hints(static_cast<uint64_t>(i) * 1000, 500));
  }
  CHECK(rig.lists.wanting_count() == 3);
  rig.lists.serve([&](ListId id, HintList& list) {
    CHECK(id == ids[0]);
    CHECK(list.take());
    return false;
  });
  CHECK(rig.serve() == std::vector{ids[1], ids[2], ids[0]});
  CHECK_FALSE(rig.lists.wants());
  CHECK(rig.lists.wanting_count() == 0);
  CHECK(rig.serve().empty());
}

TEST_CASE("if all lists are in use, only a finished one makes room") {
  Rig rig;
  std::vector<ListId> ids;
  for (size_t i = 0; i < HintLists::kListsMax; ++i) {
    CHECK_FALSE(rig.lists.make_room());
    ids.push_back(rig.lists.open());
  }
  CHECK_THROWS_AS((void)rig.lists.make_room(), std::length_error);
  CHECK(rig.lists.finish(ids[7]));
  CHECK(rig.lists.finish(ids[3]));
  CHECK(rig.lists.make_room());  // drops the one of the two that was used longest ago
  CHECK_FALSE(rig.lists.contains(ids[7]));
  CHECK(rig.lists.contains(ids[3]));
  CHECK_FALSE(rig.lists.make_room());
  const ListId list = rig.lists.open();
  CHECK(std::set<ListId>(ids.begin(), ids.end()).count(list) == 0);  // no number is used again
}

TEST_CASE("an idle finished list makes room for a list that wants more, and no other does") {
  Rig rig;
  const ListId gone = rig.lists.open();
  (void)rig.lists.add(gone, hints(0, 500));
  const ListId live = rig.lists.open();
  (void)rig.lists.add(live, hints(1000, 500));
  const auto later = [] { return HintLists::Clock::now() + 1s; };
  CHECK_FALSE(rig.lists.drop_idle(later()));  // no list has ended
  CHECK(rig.lists.finish(gone));
  CHECK_FALSE(rig.lists.drop_idle(HintLists::Clock::now() - 1s));  // the list was just used
  CHECK(rig.lists.drop_idle(later()) == gone);
  CHECK_FALSE(rig.lists.contains(gone));
  CHECK(rig.lists.contains(live));
  const ListId other = rig.lists.open();
  (void)rig.lists.add(other, hints(0, 500));
  CHECK(rig.lists.finish(other));
  CHECK(rig.lists.drop(live));
  CHECK_FALSE(rig.lists.drop_idle(later()));  // no list is left that wants more
}

TEST_CASE("a full list reports once that it has room for a batch") {
  Rig rig;
  const ListId list = rig.lists.open();
  const size_t room = rig.lists.room(list);
  CHECK(rig.lists.add(list, hints(0, room)) == 0);
  CHECK_FALSE(rig.lists.note_read(uint64_t{1} << 40, true).is_hinted);
  size_t told_count = 0;
  for (uint64_t record = 0; record < room; ++record) {
    (void)rig.serve();
    const auto [is_hinted, is_roomy] = rig.lists.note_read(record, true);
    CHECK(is_hinted);
    if (!is_roomy) continue;
    ++told_count;
    CHECK(rig.lists.room(list) >= kBatch);
  }
  CHECK(told_count == 1);
  CHECK(rig.counters.prefetch_hit == room);
}

TEST_CASE("a finished list is dropped when it is read or old") {
  Rig rig;
  const auto now = HintLists::Clock::now();
  const ListId open = rig.lists.open();
  const ListId unread = rig.lists.open();
  const ListId read = rig.lists.open();
  for (const ListId list : {open, unread, read}) (void)rig.lists.add(list, hints(list * 10, 1));
  CHECK(rig.lists.finish(unread));
  CHECK(rig.lists.finish(read));
  CHECK(rig.lists.note_read(read * 10, false).is_hinted);
  CHECK(rig.lists.expire(now, 1h));
  CHECK_FALSE(rig.lists.contains(read));
  CHECK(rig.lists.contains(unread));
  CHECK_FALSE(rig.lists.expire(now, 1h));
  CHECK(rig.lists.expire(now + 2h, 1h));
  CHECK_FALSE(rig.lists.contains(unread));
  CHECK(rig.lists.contains(open));
  CHECK(rig.counters.prefetch_dropped == 1);
  // A list whose client has died expires by age, but not because all its hints so far were read.
  const ListId dead = rig.lists.open();
  (void)rig.lists.add(dead, hints(1000, 1));
  CHECK(rig.lists.finish(dead, true));
  CHECK(rig.lists.note_read(1000, false).is_hinted);
  CHECK_FALSE(rig.lists.expire(now, 1h));
  CHECK(rig.lists.add(dead, hints(1001, 1)) > 0);
  CHECK(rig.lists.expire(now + 2h, 1h));
  CHECK_FALSE(rig.lists.contains(dead));
  CHECK(rig.counters.prefetch_dropped == 2);
  CHECK(rig.lists.any());
  CHECK(rig.lists.drop(open));
  CHECK_FALSE(rig.lists.any());
  // Calls for a list that is gone have no effect.
  CHECK_FALSE(rig.lists.drop(open));
  CHECK_FALSE(rig.lists.finish(open));
  CHECK(rig.lists.room(open) == 0);
  CHECK(rig.lists.add(open, hints(0, 5)) == 5);
  CHECK(rig.lists.state(open, 0) == HintList::State::kDone);
}

TEST_CASE("a held record that its list has passed is reported with the list's number") {
  Rig rig;
  const ListId other = rig.lists.open();
  const ListId list = rig.lists.open();
  (void)rig.lists.add(other, hints(5000, 10));
  (void)rig.lists.add(list, hints(0, 200));
  constexpr uint64_t kLeftOut = 50;
  for (uint64_t record = 0; record < 100; ++record) {
    (void)rig.serve();
    if (record == kLeftOut) {
      rig.lists.set_state(list, kLeftOut, HintList::State::kHeld);
    } else {
      CHECK(rig.lists.note_read(record, true).is_hinted);
    }
  }
  rig.lists.forget_left_out();  // from here on the list has passed it
  CHECK(rig.lists.take_forgotten().empty());
  rig.lists.forget_left_out();
  const auto forgotten = rig.lists.take_forgotten();
  REQUIRE(forgotten.size() == 1);
  CHECK(forgotten[0].list == list);
  CHECK(forgotten[0].record == kLeftOut);
  CHECK(rig.lists.take_forgotten().empty());
}

TEST_CASE("coming() gives the next records of each list, and none that were taken") {
  Rig rig;
  CHECK(rig.lists.coming(8).empty());
  for (const uint64_t first : {0, 1000}) {
    (void)rig.lists.add(rig.lists.open(), hints(first, 2 * kWindow));
  }
  CHECK(rig.lists.coming(4) == std::vector<uint64_t>{0, 1, 2, 1000, 1001, 1002});
  rig.serve();
  CHECK(rig.lists.coming(4).empty());
  (void)rig.lists.note_read(39, true);
  CHECK(rig.lists.coming(1) == std::vector<uint64_t>{kWindow, kWindow + 1});
}
