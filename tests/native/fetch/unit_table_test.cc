// native/fetch: the table of units, compared with a plain map. Each unit is fetched once however
// many ask for it, is gone once it was taken, and its memory is in the right account.

#include "fetch/unit_table.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

using namespace ffrfs;
using namespace std::chrono_literals;

namespace {

using Clock = UnitTable::Clock;
using Join = UnitTable::Join;
constexpr size_t kPage = 4096;

UnitKey key_of(uint64_t record) { return {0, record}; }

UnitPlan plan_of(uint64_t record) { return {.extent = {.record = record}, .size = 1}; }

// A table with room for 4 kept pages, 2 pages read ahead, and 1 page of metadata.
struct Table {
  explicit Table(size_t limit = 16 * kPage) : budget(limit, counters) {}

  [[nodiscard]] UnitPtr unit(size_t size = kPage) {
    return std::make_shared<Unit>(budget.reserve(Account::kInFlight, size));
  }
  void put_ahead(uint64_t record, uint64_t owner, size_t size = kPage) {
    REQUIRE(table.claim(plan_of(record)));
    CHECK(table.arrive(key_of(record), unit(size), owner).empty());
  }
  [[nodiscard]] bool has(uint64_t record) { return table.find(key_of(record)).held != nullptr; }
  [[nodiscard]] Join join(uint64_t record, int& answers) {
    HeldPtr held;
    return table.join(key_of(record),
                      [&answers](const HeldPtr&, const std::exception_ptr&) { ++answers; }, held);
  }

  Counters counters;
  Budget budget;
  UnitTable table{budget, counters};
};

void answer(const std::vector<UnitTable::Done>& waiting, const HeldPtr& held = nullptr) {
  for (const auto& done : waiting) done(held, nullptr);
}

}  // namespace

TEST_CASE("many readers of one unit share one fetch") {
  Table all;
  int answers = 0;
  CHECK(all.join(1, answers) == Join::kFirst);
  CHECK(all.join(1, answers) == Join::kWaits);
  CHECK(all.join(2, answers) == Join::kFirst);
  CHECK(all.counters.queue_depth == 2);
  CHECK_FALSE(all.has(1));
  CHECK_FALSE(all.table.claim(plan_of(1)));
  answer(all.table.finish(key_of(1)));
  CHECK(answers == 2);
  CHECK(all.table.finish(key_of(1)).empty());
  CHECK(all.join(1, answers) == Join::kFirst);
  answer(all.table.finish(key_of(1), all.unit()));  // the unit is kept, so the next reader gets it
  CHECK(answers == 3);
  CHECK(all.join(1, answers) == Join::kHeld);
  answer(all.table.finish(key_of(2)));
  CHECK(all.counters.queue_depth == 0);
}

TEST_CASE("the least recently used kept unit is dropped first") {
  Table all;
  for (uint64_t record = 0; record < 4; ++record) all.table.keep(key_of(record), all.unit());
  CHECK(all.has(0));  // now the most recently used
  all.table.keep(key_of(4), all.unit());
  CHECK_FALSE(all.has(1));
  CHECK(all.has(0));
  CHECK(all.counters.bytes_kept == 4 * kPage);
  all.table.drop(key_of(0));
  CHECK_FALSE(all.has(0));
  all.table.keep(key_of(9), all.unit(5 * kPage));  // larger than the whole account of kept units
  CHECK_FALSE(all.has(9));
  all.budget.set_limit(8 * kPage);
  all.table.shrink_kept();
  CHECK(all.counters.bytes_kept == 2 * kPage);
  CHECK_FALSE(all.has(2));
  all.budget.set_limit(0);
  all.table.shrink_kept();
  CHECK(all.counters.bytes_kept == 0);
  all.table.keep(key_of(5), all.unit());  // the most recently kept unit stays
  all.table.keep(key_of(6), all.unit());
  CHECK(all.counters.bytes_kept == kPage);
  CHECK(all.has(6));
}

TEST_CASE("metadata has its own account, and its last unit always stays") {
  Table all;
  const auto folder = [](uint64_t record) { return UnitKey{0, record, UnitKind::kSubtree}; };
  all.table.keep(folder(0), all.unit(3 * kPage));
  CHECK(all.table.find(folder(0)).held);
  for (uint64_t record = 0; record < 4; ++record) all.table.keep(key_of(record), all.unit());
  CHECK(all.table.find(folder(0)).held);
  all.table.keep(folder(1), all.unit(3 * kPage));
  CHECK_FALSE(all.table.find(folder(0)).held);
  CHECK(all.table.find(folder(1)).held);
  CHECK(all.counters.bytes_kept == 4 * kPage);
  CHECK(all.counters.bytes_metadata == 3 * kPage);
  for (uint64_t record = 0; record < 4; ++record) CHECK(all.has(record));
  all.budget.set_limit(0);
  all.table.shrink_kept();
  CHECK(all.counters.bytes_kept == 0);
  CHECK(all.table.find(folder(1)).held);
}

TEST_CASE("of the demoted units only the last two stay") {
  Table all;
  for (uint64_t record = 0; record < 4; ++record) all.table.keep(key_of(record), all.unit());
  for (const uint64_t record : {0UL, 9UL, 1UL, 1UL, 2UL}) all.table.demote(key_of(record));
  CHECK_FALSE(all.has(0));
  CHECK(all.has(1));
  CHECK(all.has(2));
  CHECK(all.has(3));
}

TEST_CASE("a unit that was read ahead stays until it is taken, and is taken once") {
  Table all;
  all.put_ahead(1, 7);
  CHECK(all.table.is_ahead(key_of(1)));
  CHECK(all.counters.bytes_prefetched == kPage);
  CHECK_FALSE(all.table.claim(plan_of(1)));
  const auto found = all.table.find(key_of(1));
  CHECK(found.was_ahead);
  CHECK_FALSE(all.table.has_ahead());
  CHECK_FALSE(all.has(1));
  CHECK(all.counters.bytes_prefetched == 0);
  CHECK(all.counters.bytes_in_flight == kPage);  // the reader that found it still holds it
}

TEST_CASE("units read ahead are dropped by age, by owner, or the oldest first") {
  Table all(1 << 20);
  for (uint64_t record = 0; record < 10; ++record) all.put_ahead(record, record % 2);
  const auto now = Clock::now();
  all.table.age(key_of(8), now - 10s);
  all.table.age(key_of(3), now - 20s);
  CHECK(all.table.expire(now - 30s).empty());
  CHECK(all.table.expire(now - 5s).size() == 2);
  CHECK_FALSE(all.table.is_ahead(key_of(3)));
  CHECK(all.table.drop_ahead(0, key_of(1)).empty());
  CHECK(all.table.drop_ahead(1, key_of(1)).size() == 1);
  const auto theirs = all.table.drop_ahead(0);
  REQUIRE(theirs.size() == 4);
  for (const auto& entry : theirs) CHECK(entry.owner == 0);
  CHECK(all.table.shrink_ahead().empty());
  CHECK(all.counters.bytes_prefetched == 3 * kPage);  // 5, 7, 9
  all.budget.set_limit(16 * kPage);
  CHECK(all.table.shrink_ahead().size() == 1);
  CHECK_FALSE(all.table.is_ahead(key_of(5)));
  CHECK(all.table.expire(Clock::now() + 1h).size() == 2);
}

TEST_CASE("readers that wait for a claimed unit get it, and it stays if they keep it") {
  Table all;
  int answers = 0;
  for (const bool is_kept : {false, true}) {
    REQUIRE(all.table.claim(plan_of(1)));
    CHECK(all.join(1, answers) == Join::kWaits);
    const UnitPtr unit = all.unit();
    const auto waiting = all.table.arrive(key_of(1), unit, 7);
    CHECK(waiting.size() == 1);
    CHECK(all.has(1));  // until the waiting readers have had it
    if (is_kept) all.table.keep(key_of(1), unit);
    all.table.pass(key_of(1));
    CHECK(all.has(1) == is_kept);
    CHECK_FALSE(all.table.has_ahead());
  }
}

TEST_CASE("readers read a unit whose claim is overdue; the first result is taken") {
  Table all;
  int answers = 0;
  for (const bool is_claimer_first : {true, false}) {
    const auto begin = Clock::now();
    REQUIRE(all.table.claim(plan_of(1)));
    REQUIRE(all.table.claim(plan_of(2)));  // nobody waits for this one
    CHECK(all.join(1, answers) == Join::kWaits);
    auto overdue = all.table.take_overdue();
    if (overdue.empty()) {
      std::this_thread::sleep_for(UnitTable::kPatience + 10ms);
      overdue = all.table.take_overdue();
    }
    CHECK(Clock::now() - begin > UnitTable::kPatience);
    REQUIRE(overdue.size() == 1);
    CHECK(overdue[0].key() == key_of(1));
    CHECK(all.table.take_overdue().empty());
    CHECK(all.join(1, answers) == Join::kWaits);
    answers = 0;
    // If the claimer fails, the others do not get its error.
    CHECK(all.table.arrive(key_of(1), nullptr, 7).empty());
    if (is_claimer_first) {
      answer(all.table.arrive(key_of(1), all.unit(), 7));
      all.table.pass(key_of(1));
      CHECK(all.table.finish(key_of(1)).empty());
    } else {
      answer(all.table.finish(key_of(1)));
      CHECK(all.table.arrive(key_of(1), all.unit(), 7).empty());
    }
    CHECK(answers == 2);
    CHECK_FALSE(all.has(1));
    CHECK(all.join(2, answers) == Join::kFirst);  // the claim is overdue: read it at once
    CHECK(all.table.finish(key_of(2)).size() == 1);
    CHECK(all.counters.queue_depth == 0);
  }
}

TEST_CASE("the table has the same units as a plain map, whatever is done") {
  enum class State { kClaimed, kAhead, kKept };
  for (uint32_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    std::minstd_rand random(seed + 1);
    Table all(1 << 30);
    std::map<uint64_t, std::pair<State, uint64_t>> model;  // record → what it is, its owner
    std::map<uint64_t, size_t> sizes;
    for (int i = 0; i < 3000; ++i) {
      const uint64_t record = random() % 30;
      const auto known = model.find(record);
      const auto is = [&](State state) {
        return known != model.end() && known->second.first == state;
      };
      switch (random() % 7) {
        case 0:
          CHECK(all.table.claim(plan_of(record)) == (known == model.end()));
          if (known == model.end()) model[record] = {State::kClaimed, random() % 4};
          break;
        case 1:
          if (!is(State::kClaimed)) break;
          sizes[record] = 1 + random() % 20'000;
          (void)all.table.arrive(key_of(record), all.unit(sizes[record]), known->second.second);
          known->second.first = State::kAhead;
          break;
        case 2: {
          const auto found = all.table.find(key_of(record));
          CHECK(found.was_ahead == is(State::kAhead));
          CHECK((found.held != nullptr) == (is(State::kAhead) || is(State::kKept)));
          if (found.was_ahead) model.erase(known);
          break;
        }
        case 3: {
          const size_t size = 1 + random() % 20'000;
          all.table.keep(key_of(record), all.unit(size));
          if (known == model.end()) {
            model[record] = {State::kKept, 0};
            sizes[record] = size;
          }
          break;
        }
        case 4:
          all.table.drop(key_of(record));
          if (known != model.end() && !is(State::kClaimed)) model.erase(known);
          break;
        case 5:
          CHECK(all.table.drop_ahead(record % 4).size() ==
                std::erase_if(model, [&](const auto& entry) {
            return entry.second == std::pair{State::kAhead, record % 4};
          }));
          break;
        default:
          CHECK((all.table.take_ahead(key_of(record)) != nullptr) == is(State::kAhead));
          if (is(State::kAhead)) model.erase(known);
      }
      uint64_t kept = 0;
      uint64_t ahead = 0;
      uint64_t claimed = 0;
      for (const auto& [place, entry] : model) {
        if (entry.first == State::kKept) kept += sizes[place];
        if (entry.first == State::kAhead) ahead += sizes[place];
        if (entry.first == State::kClaimed) ++claimed;
      }
      REQUIRE(all.counters.bytes_kept == kept);
      REQUIRE(all.counters.bytes_prefetched == ahead);
      REQUIRE(all.counters.bytes_in_flight == 0);
      REQUIRE(all.counters.queue_depth == claimed);
    }
  }
}

TEST_CASE("many threads: each unit is taken or dropped exactly once") {
  Table all(1 << 30);
  constexpr uint64_t kCount = 4000;
  std::vector<std::atomic<int>> seen(kCount);
  std::atomic<uint64_t> put_count{0};
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] {
      for (uint64_t record = 0; record < kCount; ++record) {
        (void)all.table.claim(plan_of(record));
        auto unit = all.unit(100);
        unit->served_bytes = record;  // a number to recognise it by
        (void)all.table.arrive(key_of(record), unit, record % 3);
        put_count = record + 1;
      }
    });
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        for (uint64_t record = 0; record < kCount;) {
          if (record >= put_count) {
            std::this_thread::yield();
          } else if (all.table.find(key_of(record++)).held) {
            ++seen[record - 1];
          }
        }
      });
    }
    threads.emplace_back([&] {
      while (put_count < kCount) {
        for (const auto& entry : all.table.drop_ahead(1)) ++seen[entry.unit->served_bytes];
        for (const auto& entry : all.table.expire(Clock::now() - 100us)) {
          ++seen[entry.unit->served_bytes];
        }
        std::this_thread::sleep_for(50us);
      }
    });
  }
  for (const auto& count : seen) CHECK(count == 1);
  CHECK(all.counters.bytes_prefetched == 0);
  CHECK(all.counters.bytes_in_flight == 0);
}
