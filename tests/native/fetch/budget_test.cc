// native/fetch: memory by accounts. No byte is counted twice, none is forgotten, and requests
// that wait for room get it in the order in which they came.

#include "fetch/budget.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <random>
#include <vector>

#include "threads.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

constexpr size_t kLimit = 16'000;  // so that a sixteenth is 1,000
constexpr std::array kAccounts{Account::kInFlight, Account::kKept, Account::kAhead,
                               Account::kMetadata, Account::kSpare};

}  // namespace

TEST_CASE("the accounts add up to the limit, whatever it is") {
  for (const size_t limit : {size_t{0}, size_t{16}, kLimit, size_t{1} << 40}) {
    size_t all = 0;
    for (const Account account : kAccounts) all += share_of(account, limit);
    CHECK(all == limit);
  }
}

TEST_CASE("a reservation is in one account at a time, and ends with its owner") {
  Counters counters;
  Budget budget(kLimit, counters);
  {
    Reservation one = budget.reserve(Account::kInFlight, 700);
    CHECK(counters.bytes_in_flight == 700);
    one.move_to(Account::kKept);
    CHECK(budget.used(Account::kInFlight) == 0);
    CHECK(budget.used(Account::kKept) == 700);
    one.resize(300);
    Reservation other = std::move(one);
    CHECK(budget.used(Account::kKept) == 300);
    other = budget.reserve(Account::kAhead, 5);
    CHECK(counters.bytes_kept == 0);
    CHECK(counters.bytes_prefetched == 5);
  }
  for (const Account account : kAccounts) CHECK(budget.used(account) == 0);
}

TEST_CASE("try_reserve() fails beyond its account's share, reserve() never does") {
  Counters counters;
  Budget budget(kLimit, counters);
  const auto first = budget.try_reserve(Account::kAhead, 2000);
  CHECK(first);
  CHECK_FALSE(budget.try_reserve(Account::kAhead, 1));
  CHECK(budget.try_reserve(Account::kInFlight, 4000, 0.5));
  CHECK_FALSE(budget.try_reserve(Account::kInFlight, 4001, 0.5));
  const Reservation more = budget.reserve(Account::kAhead, 9000);
  CHECK(budget.used(Account::kAhead) == 11'000);
}

TEST_CASE("waiting requests are admitted in order, as there is room; one is always admitted") {
  Counters counters;
  Budget budget(kLimit, counters);  // 8,000 may be in flight
  std::vector<Reservation> held;
  std::vector<int> came;
  int calls = 0;
  budget.set_on_room([&] { ++calls; });
  const auto ask = [&](int who, size_t size) {
    budget.admit(size, [&, who](Reservation memory) {
      came.push_back(who);
      held.push_back(std::move(memory));
    });
  };
  ask(0, 100'000);
  ask(1, 5000);
  ask(2, 2000);
  ask(3, 2000);
  ask(4, 10);
  CHECK(came == std::vector{0});
  CHECK(budget.has_waiting());
  held.clear();
  CHECK(calls > 0);
  CHECK(came == std::vector{0});
  budget.admit_waiting();
  ask(5, 10);  // there is room for it, but not for those before it
  CHECK(came == std::vector{0, 1, 2});
  budget.set_limit(2 * kLimit);
  CHECK(came == std::vector{0, 1, 2, 3, 4, 5});
  CHECK_FALSE(budget.has_waiting());
  CHECK(counters.bytes_in_flight == 9020);
  calls = 0;
  held.clear();
  CHECK(calls == 0);
  CHECK(budget.used(Account::kInFlight) == 0);
}

TEST_CASE("an admitted reservation that moves to the kept account lets the next one in") {
  Counters counters;
  Budget budget(kLimit, counters);
  Reservation first;
  budget.admit(9000, [&](Reservation memory) { first = std::move(memory); });
  bool has_come = false;
  budget.admit(9000, [&](const Reservation&) { has_come = true; });
  CHECK_FALSE(has_come);
  first.move_to(Account::kKept);
  budget.admit_waiting();
  CHECK(has_come);
}

TEST_CASE("a reader that holds one unit and waits for another is not left waiting") {
  Counters counters;
  Budget budget(kLimit, counters);
  Reservation first;
  budget.admit(9000, [&](Reservation memory) { first = std::move(memory); });
  bool has_come = false;
  budget.admit(9000, [&](const Reservation&) { has_come = true; });
  int calls = 0;
  budget.set_on_room([&] { ++calls; });
  first.settle();
  CHECK(calls == 1);
  budget.admit_waiting();
  CHECK(has_come);
  CHECK(budget.used(Account::kInFlight) == 9000);
}

TEST_CASE("reservations may outlive their budget") {
  Counters counters;
  Reservation left;
  {
    Budget budget(kLimit, counters);
    left = budget.reserve(Account::kKept, 10);
    budget.admit(100'000, [](const Reservation&) {});
  }
  left.move_to(Account::kInFlight);
  left = {};
  CHECK(counters.bytes_kept == 10);  // the budget that would count is gone
}

TEST_CASE("threads reserve, move and release; in the end nothing is left") {
  Counters counters;
  Budget budget(kLimit, counters);
  std::atomic<int> admitted{0};
  std::atomic<int> asked{0};
  in_threads(4, [&](uint32_t seed) {
    std::minstd_rand random(seed + 1);
    for (int i = 0; i < 5000; ++i) {
      const size_t size = random() % 3000;
      const Account account = kAccounts[random() % kAccounts.size()];
      switch (random() % 4) {
        case 0: {
          Reservation memory = budget.reserve(account, size);
          memory.move_to(kAccounts[random() % kAccounts.size()]);
          memory.resize(size / 2);
          break;
        }
        case 1: (void)budget.try_reserve(account, size, 0.5); break;
        case 2:
          ++asked;
          budget.admit(size, [&](const Reservation&) { ++admitted; });
          break;
        default: budget.admit_waiting();
      }
    }
  });
  budget.admit_waiting();
  CHECK(admitted == asked);
  for (const Account account : kAccounts) CHECK(budget.used(account) == 0);
}
