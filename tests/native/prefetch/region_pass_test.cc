// native/prefetch: the neighbours of a read are verified. They are pushed if the kernel knows them,
// else brought into the page cache; a damaged one is left to its reader.

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>

#include "io/error.h"
#include "prefetch_rig.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

constexpr size_t kCount = 100;
constexpr size_t kSize = 10'000;  // so that one region has all records

struct Around {
  explicit Around(ReadAroundMode mode = ReadAroundMode::kOn, bool is_taken = true)
      : rig(patterns(kCount, kSize), {.options = {.around = mode}},
            [this, is_taken](uint64_t record, std::span<const std::byte>) {
              const std::lock_guard lock(mutex);
              if (is_taken) pushed.insert(record);
              return is_taken;
            }) {
    rig.prefetcher->around().set_budget(kCount * kSize * 2);
  }

  void know_all() {
    for (uint64_t record = 0; record < kCount; ++record) {
      rig.prefetcher->around().note_known(record);
    }
  }
  [[nodiscard]] size_t pushed_count() {
    const std::lock_guard lock(mutex);
    return pushed.size();
  }

  [[nodiscard]] bool has_pushed(uint64_t record) {
    const std::lock_guard lock(mutex);
    return pushed.contains(record);
  }

  std::mutex mutex;  // guards `pushed`
  std::set<uint64_t> pushed;
  Rig rig;  // declared last, because its threads push
};

}  // namespace

TEST_CASE("the neighbours of a read are pushed, except for controls") {
  Around around;
  around.know_all();
  CHECK_FALSE(around.rig.read(50));
  CHECK(wait_until([&] { return around.rig.counters.around_pushed >= kCount - 10; }));
  CHECK(around.has_pushed(51));
  CHECK_FALSE(around.has_pushed(50));
  CHECK(around.rig.counters.around_controls + around.rig.counters.around_pushed + 1 == kCount);
  CHECK(around.rig.wrong == 0);
}

TEST_CASE("a damaged neighbour is left to its reader") {
  Around around;
  around.know_all();
  around.rig.damage(51);
  CHECK_FALSE(around.rig.read(50));
  CHECK(wait_until([&] { return around.pushed_count() >= kCount - 10; }));
  CHECK_FALSE(around.has_pushed(51));
  CHECK_THROWS_AS((void)around.rig.read(51), ChecksumError);
  CHECK(around.rig.wrong == 0);
}

TEST_CASE("neighbours whose names the kernel does not know come into the page cache") {
  Around around;
  CHECK_FALSE(around.rig.read(50));
  CHECK(wait_until([&] { return around.rig.counters.around_read_bytes >= (kCount - 10) * kSize; }));
  CHECK(wait_until([&] { return around.rig.read(51); }));
  CHECK(around.pushed_count() == 0);
}

TEST_CASE("a record that the kernel has forgotten is not pushed again") {
  Around around(ReadAroundMode::kOn, false);
  around.know_all();
  CHECK_FALSE(around.rig.read(50));
  CHECK(wait_until([&] { return around.rig.counters.around_read_bytes > 0; }));
  CHECK(wait_until([&] { return !around.rig.prefetcher->around().is_to_push(51); }));
  CHECK(around.rig.counters.around_pushed == 0);
}

TEST_CASE("neighbours are not read while there are hints") {
  Around around;
  around.know_all();
  const auto list = around.rig.prefetcher->open_list();
  (void)around.rig.prefetcher->add(list, around.rig.hints({0, 1}));
  CHECK_FALSE(around.rig.read(50));
  CHECK(around.rig.settles());
  CHECK(around.rig.counters.around_read_bytes == 0);
}

TEST_CASE("a record that others are fetching is left to them") {
  Around around;
  around.know_all();
  UnitTable& table = around.rig.reads.units().table();
  const UnitPlan plan = whole_plan(around.rig.shards.extent(20), true);
  CHECK(table.claim(plan));
  CHECK_FALSE(around.rig.read(50));
  CHECK(wait_until([&] { return around.rig.counters.around_pushed >= kCount - 10; }));
  CHECK_FALSE(around.has_pushed(20));
  CHECK(table.arrive(plan.key(), nullptr, 0).empty());
}

TEST_CASE("warming works while records held for hints use all their room") {
  Around around;
  around.know_all();
  Budget& budget = around.rig.reads.fetcher().budget();
  const auto held = budget.reserve(Account::kAhead, budget.limit(Account::kAhead));
  around.rig.prefetcher->warm(kRootIno);
  CHECK(wait_until([&] { return around.rig.counters.warm_pushed == kCount; }));
  CHECK(around.rig.counters.warm_left_out == 0);
  CHECK(around.rig.wrong == 0);
}

TEST_CASE("warming reads one large file at a time when memory is short, and leaves none out") {
  constexpr size_t kLarge = 4'000'000;
  constexpr size_t kLargeCount = 12;
  std::atomic<size_t> used_most{0};
  std::atomic<Budget*> budget{nullptr};
  Rig rig(patterns(kLargeCount, kLarge), {.cache_bytes = 16 * kMib},
          [&](uint64_t, std::span<const std::byte>) {
    const size_t used = budget.load()->used(Account::kInFlight);
    for (size_t most = used_most; used > most && !used_most.compare_exchange_weak(most, used);) {
    }
    return true;
  });
  budget = &rig.reads.fetcher().budget();
  const size_t limit = budget.load()->limit(Account::kInFlight);
  const auto read = budget.load()->reserve(Account::kInFlight, limit);  // readers use all of it
  ReadAround& around = rig.prefetcher->around();
  around.set_budget(2 * kLargeCount * kLarge);
  for (uint64_t record = 0; record < kLargeCount; ++record) around.note_known(record);
  rig.prefetcher->warm(kRootIno);
  CHECK(wait_until([&] { return rig.counters.warm_pushed == kLargeCount; }));
  CHECK(rig.counters.warm_left_out == 0);
  CHECK(used_most - limit < 2 * kLarge);
  CHECK(rig.wrong == 0);
}
