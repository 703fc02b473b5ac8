// native/volume: hints and runs become units ahead of their readers. Whatever is hinted, and
// whenever, readers get the right bytes, or the same error as without hints.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "io/error.h"
#include "prefetch_rig.h"
#include "threads.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::chrono_literals;

namespace {

std::vector<uint64_t> shuffled(size_t count, uint32_t seed) {
  std::vector<uint64_t> all = numbers(count);
  std::mt19937 random(seed);
  std::shuffle(all.begin(), all.end(), random);
  return all;
}

// The largest amount that was held ahead since this object was made.
class MostHeld {
 public:
  explicit MostHeld(const Counters& counters)
      : sampler_([this, &counters](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            most_ = std::max<uint64_t>(most_, counters.bytes_prefetched);
            std::this_thread::sleep_for(100us);
          }
        }) {}

  [[nodiscard]] uint64_t bytes() const { return most_; }

 private:
  std::atomic<uint64_t> most_{0};
  std::jthread sampler_;
};

uint64_t size_of(const Rig& rig) {
  uint64_t total = 0;
  for (const Bytes& record : rig.records) total += record.size();
  return total;
}

}  // namespace

TEST_CASE("hinted records are pushed in the order of the list, except for a few markers") {
  const std::vector<uint64_t> order = shuffled(200, 1);
  std::mutex mutex;
  std::map<std::thread::id, std::vector<uint64_t>> pushed;
  Rig rig(patterns(200, 10'000), {}, [&](uint64_t record, std::span<const std::byte>) {
    const std::lock_guard lock(mutex);
    pushed[std::this_thread::get_id()].push_back(record);
    return true;
  });
  const auto list = rig.prefetcher->open_list();
  CHECK(rig.prefetcher->add(list, rig.hints(order)) > 7000);
  REQUIRE(wait_until([&] { return rig.counters.prefetch_fetched == 200; }));
  // All but the markers (a few in each window) are pushed, after they are counted as fetched.
  REQUIRE(rig.settles());
  CHECK(rig.counters.prefetch_pushed.load() >= 190);
  CHECK(rig.counters.prefetch_pushed.load() < 200);
  CHECK(rig.counters.prefetch_hinted.load() == 200);
  CHECK(rig.counters.prefetch_depth_max.load() > 1);
  CHECK(rig.counters.prefetch_depth_max.load() <= 64);
  CHECK(rig.wrong == 0);
  const std::lock_guard lock(mutex);
  std::vector<uint64_t> places(200);
  for (size_t i = 0; i < order.size(); ++i) places[order[i]] = i;
  size_t total = 0;
  for (const auto& [thread, of_thread] : pushed) {
    CHECK(std::ranges::is_sorted(of_thread, {}, [&](uint64_t record) { return places[record]; }));
    total += of_thread.size();
  }
  CHECK(total == rig.counters.prefetch_pushed.load());
  CHECK(rig.counters.bytes_prefetched.load() == 12'288);
}

TEST_CASE("records that the kernel does not take are held, and not read again") {
  Rig rig(patterns(200, 10'000));
  const std::vector<uint64_t> order = shuffled(200, 2);
  const auto list = rig.prefetcher->open_list();
  (void)rig.prefetcher->add(list, rig.hints(order));
  rig.prefetcher->finish(list);
  REQUIRE(wait_until([&] { return rig.counters.prefetch_fetched == 200; }));
  REQUIRE(rig.settles());
  CHECK(rig.counters.checksums_verified.load() == 200);
  CHECK(rig.counters.bytes_prefetched.load() > 0);
  for (const uint64_t record : order) CHECK(rig.read(record, 4096));
  CHECK(rig.wrong == 0);
  CHECK(rig.counters.checksums_verified.load() == 200);
  CHECK(rig.counters.prefetch_hit.load() == 200);
  CHECK(rig.counters.prefetch_late.load() == 0);
  CHECK(rig.counters.prefetch_wasted_bytes.load() == 0);
  CHECK(rig.counters.bytes_prefetched.load() == 0);
  CHECK(rig.counters.readahead_hit.load() == 0);
}

TEST_CASE("records of all sizes are read ahead, except empty and too large ones") {
  Rig rig({pattern(0, 0), pattern(1, 1), pattern(4096, 2), pattern(4 * kMib, 3),
           pattern(4 * kMib + 1, 4), pattern(6'000'000, 5), pattern(17'000'000, 6)},
          {.cache_bytes = 128 * kMib});
  const auto list = rig.prefetcher->open_list();
  (void)rig.prefetcher->add(list, rig.hints(numbers(7)));
  // Record 0 is empty, and 6 is too large.
  REQUIRE(wait_until([&] { return rig.counters.prefetch_fetched == 5; }));
  for (const uint64_t record : {0, 1, 2, 3, 4, 5}) CHECK(rig.read(record, 100'000));
  CHECK_FALSE(rig.read(6));
  CHECK(rig.wrong == 0);
  CHECK(rig.counters.bytes_prefetched.load() == 0);
}

TEST_CASE("readers of a record that is already claimed wait for the claim") {
  Rig rig(patterns(3, 50'000));
  DemandReader& reader = rig.reads.units();
  const UnitPlan plan = whole_plan(rig.shards.extent(1), true);
  REQUIRE(reader.table().claim(plan));
  CHECK_FALSE(reader.table().claim(plan));
  CHECK(rig.counters.queue_depth.load() == 1);
  int answers = 0;
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(rig.reads.read(plan.extent, 0, 100, [&](Slice slice, std::exception_ptr error) {
      CHECK_FALSE(error);
      CHECK(text(slice.bytes) == rig.records[1].substr(0, 100));
      ++answers;
    }));
  }
  UnitPtr unit = reader.fetcher().make_unit(plan.size);
  std::ranges::copy(view(rig.records[1]), unit->buffer.data());
  rig.reads.poll();
  CHECK(answers == 0);
  CHECK(reader.arrive(plan.key(), unit, 1, nullptr));
  unit = nullptr;
  while (answers < 3) {
    rig.reads.wait(1000);
    rig.reads.poll();
  }
  CHECK(rig.counters.bytes_storage.load() == 0);
  CHECK(rig.counters.queue_depth.load() == 0);
  CHECK(rig.counters.bytes_in_flight.load() == 0);
  REQUIRE(reader.table().claim(whole_plan(rig.shards.extent(2), true)));
  CHECK_FALSE(reader.arrive(whole_plan(rig.shards.extent(2), true).key(), nullptr, 1, nullptr));
  CHECK(rig.counters.queue_depth.load() == 0);
}

TEST_CASE("a reader that asks just as its record arrives gets it, and reads nothing") {
  Rig rig(patterns(1, 100));
  DemandReader& reader = rig.reads.units();
  const UnitPlan plan = whole_plan(rig.shards.extent(0), true);
  const UnitPtr unit = reader.fetcher().make_unit(plan.size);
  std::ranges::copy(view(rig.records[0]), unit->buffer.data());
  std::atomic<int> turn{0};
  constexpr int kTurns = 3000;
  std::jthread other([&] {
    for (int i = 1; i <= kTurns; ++i) {
      while (turn < i) std::this_thread::yield();
      (void)reader.arrive(plan.key(), unit, 1, nullptr);
      turn = -i;
    }
  });
  int answers = 0;
  int left_count = 0;  // units that nobody will take
  Prefetcher::Clock::duration longest{};
  for (int i = 1; i <= kTurns; ++i) {
    REQUIRE(reader.table().claim(plan));
    const auto begin = Prefetcher::Clock::now();
    turn = i;
    reader.fetch(plan, [&](const UnitPtr&, const std::exception_ptr&) { ++answers; });
    while (turn != -i || answers < i) {
      rig.reads.wait(1);
      rig.reads.poll();
    }
    longest = std::max(longest, Prefetcher::Clock::now() - begin);
    if (reader.table().take_ahead(plan.key())) ++left_count;
  }
  CHECK(left_count == 0);
  // If a claim took longer, on a busy machine, the waiting reader reads the record itself.
  if (longest < UnitTable::kPatience) {
    CHECK(rig.counters.bytes_storage + rig.counters.bytes_page_cache == 0);
  }
  CHECK(rig.counters.bytes_prefetched.load() == 0);
}

TEST_CASE("every record is read once although hints are just ahead of their readers") {
  for (uint32_t seed = 0; seed < 5; ++seed) {
    CAPTURE(seed);
    Rig rig(patterns(200, 10'000));
    const std::vector<uint64_t> order = shuffled(200, seed);
    const auto list = rig.prefetcher->open_list();
    (void)rig.prefetcher->add(list, rig.hints(order));
    std::atomic<size_t> next{0};
    in_threads(4, [&] {
      for (size_t at = next++; at < order.size(); at = next++) (void)rig.read(order[at]);
    });
    CHECK(rig.wrong == 0);
    REQUIRE(rig.settles());
    // A record is verified twice if a claim took so long that its reader came first.
    const uint64_t verified = rig.counters.checksums_verified;
    CHECK(verified >= 200);
    CHECK(verified <= 200 + rig.counters.prefetch_late);
    CHECK(rig.counters.prefetch_hit + rig.counters.prefetch_late == 200);
    CHECK(rig.counters.bytes_prefetched.load() == 0);
    CHECK(rig.counters.bytes_in_flight.load() == 0);
  }
}

TEST_CASE("records that nobody reads are dropped after a while") {
  Rig rig(patterns(100, 10'000), {.options = {.ttl = 100ms}});
  const auto list = rig.prefetcher->open_list();
  (void)rig.prefetcher->add(list, rig.hints(numbers(100)));
  REQUIRE(wait_until([&] { return rig.counters.prefetch_fetched == 100; }));
  REQUIRE(wait_until([&] {
    return rig.counters.bytes_prefetched == 0 &&
           rig.counters.prefetch_wasted_bytes == size_of(rig);  // this is counted a moment later
  }));
  CHECK(rig.counters.prefetch_dropped.load() == 0);  // the list's client is still there
  rig.prefetcher->finish(list);
  REQUIRE(wait_until([&] { return rig.counters.prefetch_dropped == 100; }));
  CHECK(rig.prefetcher->room(list) == std::nullopt);
  CHECK(rig.prefetcher->add(list, rig.hints({1, 2, 3})) == 3);  // ignored
  for (uint64_t record = 0; record < 100; ++record) (void)rig.read(record);
  CHECK(rig.wrong == 0);
}

TEST_CASE("the memory of a client that dies is free at once") {
  Rig rig(patterns(100, 10'000));
  const auto dead = rig.prefetcher->open_list();
  const auto alive = rig.prefetcher->open_list();
  (void)rig.prefetcher->add(dead, rig.hints(numbers(50)));
  (void)rig.prefetcher->add(alive, rig.hints({70, 71, 72}));
  REQUIRE(wait_until([&] { return rig.counters.prefetch_fetched == 53; }));
  REQUIRE(rig.settles());
  rig.prefetcher->drop(dead);
  CHECK(rig.counters.bytes_prefetched.load() == 3 * 12'288);
  CHECK(rig.counters.prefetch_dropped.load() == 50);
  CHECK(rig.counters.prefetch_wasted_bytes.load() > 500'000);
  CHECK(rig.read(71));
  rig.prefetcher->drop(dead);
  rig.prefetcher->drop(alive);
  rig.prefetcher->drop(12'345);
  CHECK(rig.counters.bytes_prefetched.load() == 0);
}

TEST_CASE("a client may die while its records are in flight") {
  for (int round = 0; round < 8; ++round) {
    Rig rig(patterns(100, 10'000));
    const auto list = rig.prefetcher->open_list();
    (void)rig.prefetcher->add(list, rig.hints(numbers(100)));
    std::this_thread::sleep_for(std::chrono::microseconds(250 * round));
    rig.prefetcher->drop(list);
    REQUIRE(rig.settles());
    CHECK(wait_until([&] { return rig.counters.bytes_prefetched == 0; }));
    CHECK(rig.counters.bytes_in_flight.load() == 0);
    CHECK(rig.counters.prefetch_dropped.load() == 100);
  }
}

TEST_CASE("a damaged record is not pushed, and gives its reader an error; others are pushed") {
  std::mutex mutex;
  std::vector<uint64_t> pushed;
  Rig rig(patterns(40, 10'000), {}, [&](uint64_t record, std::span<const std::byte>) {
    const std::lock_guard lock(mutex);
    pushed.push_back(record);
    return true;
  });
  rig.damage(7);
  const auto list = rig.prefetcher->open_list();
  (void)rig.prefetcher->add(list, rig.hints(numbers(40)));
  CHECK(wait_until([&] { return rig.counters.prefetch_pushed == 39; }));
  CHECK_THROWS_AS((void)rig.read(7), ChecksumError);
  CHECK_THROWS_AS((void)rig.read(7), ChecksumError);
  CHECK(rig.counters.prefetch_fetched.load() == 39);
  CHECK(rig.counters.prefetch_dropped.load() == 1);
  CHECK(rig.counters.bytes_prefetched.load() == 0);
  const std::lock_guard lock(mutex);
  CHECK(std::ranges::find(pushed, 7) == pushed.end());
  CHECK(rig.wrong == 0);
}

TEST_CASE("held records stay within their limit") {
  for (const size_t size : {size_t{100}, size_t{5000}, size_t{100'000}, size_t{500'000}}) {
    CAPTURE(size);
    constexpr size_t kLimit = kMib;
    Rig rig(patterns(size < 1000      ? 1000
                     : size < 100'000 ? 300
                                      : 30,
                     size),
            {.cache_bytes = 8 * kLimit});
    MostHeld most(rig.counters);
    std::vector<Prefetcher::ListId> lists;
    for (uint32_t i = 0; i < 3; ++i) {
      lists.push_back(rig.prefetcher->open_list());
      (void)rig.prefetcher->add(lists.back(), rig.hints(shuffled(rig.records.size(), i)));
    }
    REQUIRE(rig.settles());
    CHECK(rig.counters.bytes_prefetched > 0);
    const std::vector<uint64_t> order = shuffled(rig.records.size(), 0);
    for (size_t i = 0; i < 20; ++i) (void)rig.read(order[i]);
    REQUIRE(rig.settles());
    CHECK(most.bytes() <= kLimit);
    CHECK(rig.wrong == 0);
  }
}

TEST_CASE("records held for a client that has gone make room for a live client") {
  constexpr size_t kCount = 24;
  Rig rig(patterns(kCount, kMib), {.options = {.idle = 200ms}, .cache_bytes = 64 * kMib});
  Prefetcher& prefetcher = *rig.prefetcher;
  const std::vector<uint64_t> order = numbers(kCount);
  const auto gone = prefetcher.open_list();
  (void)prefetcher.add(gone, rig.hints({order.begin(), order.begin() + kCount / 2}));
  prefetcher.finish(gone);
  CHECK(rig.settles());
  const uint64_t held = rig.counters.prefetch_fetched;
  CHECK(held > 0);
  CHECK(held < kCount / 2);  // only as many as there is room for
  const auto live = prefetcher.open_list();
  (void)prefetcher.add(live, rig.hints({order.begin() + kCount / 2, order.end()}));
  CHECK(wait_until([&] { return rig.counters.prefetch_fetched >= 2 * held; }));
  CHECK_FALSE(prefetcher.room(gone));
  CHECK(prefetcher.room(live));
  CHECK(rig.counters.prefetch_wasted_bytes >= held * kMib);
  CHECK(rig.read(kCount / 2));
  CHECK(rig.wrong == 0);
}

// The limit is an eighth of --cache-mb 32, and the size of the largest record that is held whole.
TEST_CASE("records as large as the limit are read ahead, one at a time") {
  constexpr size_t kLimit = 4 * kMib;
  constexpr size_t kCount = 3;
  for (const bool is_pushed : {false, true}) {
    CAPTURE(is_pushed);
    std::vector<Bytes> records;
    for (uint32_t i = 0; i < kCount; ++i) records.push_back(pattern(kLimit, i));
    Rig rig(std::move(records), {.cache_bytes = 8 * kLimit},
            [is_pushed](uint64_t, std::span<const std::byte>) { return is_pushed; });
    MostHeld most(rig.counters);
    const auto list = rig.prefetcher->open_list();
    (void)rig.prefetcher->add(list, rig.hints(numbers(kCount)));
    rig.prefetcher->finish(list);
    size_t ready_count = 0;
    for (uint64_t record = 0; record < kCount; ++record) {
      REQUIRE(wait_until([&] { return rig.counters.prefetch_fetched > record; }));
      REQUIRE(rig.settles());
      if (!is_pushed) CHECK(rig.counters.bytes_prefetched == kLimit);
      if (rig.read(record)) ++ready_count;
    }
    if (!is_pushed) CHECK(ready_count == kCount);
    CHECK(rig.counters.prefetch_fetched.load() == kCount);
    CHECK(rig.counters.prefetch_too_large.load() == 0);
    CHECK(most.bytes() <= kLimit);
    CHECK(rig.wrong == 0);
  }
}

TEST_CASE("records larger than the limit are counted, and left to their readers") {
  constexpr size_t kCount = 3;
  Rig rig(patterns(kCount, 5 * kMib), {.cache_bytes = 32 * kMib});
  const auto list = rig.prefetcher->open_list();
  (void)rig.prefetcher->add(list, rig.hints(numbers(kCount)));
  REQUIRE(wait_until([&] { return rig.counters.prefetch_too_large == kCount; }));
  CHECK(rig.counters.prefetch_fetched.load() == 0);
  for (uint64_t record = 0; record < kCount; ++record) (void)rig.read(record);
  CHECK(rig.counters.prefetch_late.load() == kCount);
  CHECK(rig.counters.prefetch_too_large.load() == kCount);
  CHECK(rig.wrong == 0);
}

TEST_CASE("the prefetcher can end at any time") {
  for (int round = 0; round < 10; ++round) {
    Rig rig(patterns(100, 10'000), {}, [](uint64_t, std::span<const std::byte>) {
      std::this_thread::sleep_for(200us);
      return true;
    });
    const auto list = rig.prefetcher->open_list();
    (void)rig.prefetcher->add(list, rig.hints(numbers(100)));
    std::atomic<int> answers{0};
    int waiting = 0;
    for (uint64_t record = 0; record < 100; record += 10) {
      const auto now = rig.reads.read(rig.shards.extent(record), 0, 100,
                                      [&](Slice slice, std::exception_ptr error) {
        CHECK_FALSE(error);
        CHECK(slice.bytes.size() == 100);
        ++answers;
      });
      if (!now) ++waiting;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(150 * round));
    rig.reads.units().set_observer(nullptr);
    rig.prefetcher.reset();
    CHECK(rig.counters.prefetch_fetched + rig.counters.prefetch_late <= 200);
    REQUIRE(wait_until([&] {
      rig.reads.poll();
      return answers == waiting;
    }));
    CHECK(rig.counters.queue_depth.load() == 0);
    CHECK(rig.counters.bytes_in_flight.load() == 0);
    CHECK(rig.wrong == 0);
  }
}

TEST_CASE("lists beyond the limits are refused, and room is reported when it comes back") {
  Rig rig(patterns(50, 1000));
  std::vector<Prefetcher::ListId> lists;
  for (size_t i = 0; i < Prefetcher::kListsMax; ++i) lists.push_back(rig.prefetcher->open_list());
  CHECK_THROWS_AS((void)rig.prefetcher->open_list(), std::length_error);
  rig.prefetcher->drop(lists.back());
  const auto list = rig.prefetcher->open_list();
  std::atomic<int> calls{0};
  rig.prefetcher->on_room([&] { ++calls; });
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < 9000; ++i) order.push_back(i % 50);
  CHECK(rig.prefetcher->add(list, rig.hints(order)) == 0);
  CHECK(rig.counters.prefetch_dropped.load() == 9000 - 8192);
  for (size_t i = 0; i < 1200; ++i) {
    if (rig.prefetcher->room(list) < 32) CHECK(calls == 0);
    (void)rig.read(order[i]);
  }
  CHECK(calls.load() == 1);
  CHECK(rig.prefetcher->room(list) > 32);
  CHECK(rig.wrong == 0);
}

TEST_CASE("records that are read in order are read ahead without hints") {
  Rig rig(patterns(1000, 5000));
  size_t at_once = 0;
  for (uint64_t record = 0; record < 1000; ++record) {
    at_once += rig.read(record) ? 1 : 0;
    if (record % 32 == 31) REQUIRE(rig.settles());
  }
  CHECK(rig.wrong == 0);
  CHECK(rig.counters.checksums_verified.load() >= 1000);
  // A record is verified twice if a claim took so long that its reader came first.
  CHECK(rig.counters.checksums_verified.load() <= 2000 - at_once);
  CHECK(rig.counters.readahead_fetched.load() > 900);
  CHECK(rig.counters.readahead_hit.load() > 500);
  CHECK(rig.counters.readahead_wasted_bytes.load() == 0);
  CHECK(rig.counters.prefetch_hit.load() == 0);
  CHECK(rig.counters.bytes_prefetched.load() == 0);
  MESSAGE(at_once << " of 1000 at once, " << rig.counters.readahead_hit.load() << " hits");
}

TEST_CASE("records that are read after the last of a shared list are still hits") {
  Rig rig(patterns(200, 10'000));
  const auto list = rig.prefetcher->open_list();
  (void)rig.prefetcher->add(list, rig.hints(numbers(200)));
  rig.prefetcher->finish(list);
  REQUIRE(wait_until([&] { return rig.counters.prefetch_fetched == 200; }));
  REQUIRE(rig.settles());
  (void)rig.read(199);
  std::this_thread::sleep_for(600ms);  // long enough for the search for lists that are over
  for (uint64_t record = 0; record < 199; ++record) (void)rig.read(record);
  CHECK(rig.counters.prefetch_hit.load() == 200);
  CHECK(rig.counters.readahead_hit.load() == 0);
}

// The records left out exceed the limit long before they are too old.
TEST_CASE("a reader that skips every second hint still gets its records read ahead") {
  Rig rig(patterns(400, 30'000), {.options = {.window_records = 32}, .cache_bytes = 16 * kMib});
  const auto list = rig.prefetcher->open_list();
  (void)rig.prefetcher->add(list, rig.hints(numbers(400)));
  for (uint64_t record = 0; record < 400; record += 2) {
    (void)rig.read(record);
    if (record % 16 == 0) REQUIRE(rig.settles());
  }
  CHECK(rig.wrong == 0);
  CHECK(rig.counters.prefetch_hit.load() > 150);
}

// The readers find records in the page cache while these are still on their way.
TEST_CASE("records that readers found in the page cache are not held") {
  Rig rig(patterns(600, 10'000));
  std::ifstream(rig.path).ignore(std::numeric_limits<std::streamsize>::max());
  const std::vector<uint64_t> order = shuffled(600, 3);
  const auto list = rig.prefetcher->open_list();
  (void)rig.prefetcher->add(list, rig.hints(order));
  std::atomic<size_t> next{0};
  in_threads(4, [&] {
    for (size_t at = next++; at < order.size(); at = next++) (void)rig.read(order[at]);
  });
  REQUIRE(rig.settles());
  CHECK(rig.wrong == 0);
  CHECK(rig.counters.prefetch_hit + rig.counters.prefetch_late == 600);
  CHECK(wait_until([&] { return rig.counters.bytes_prefetched == 0; }));
}

TEST_CASE("readers get the right bytes while lists come and go, and the kernel is slow") {
  Rig rig(patterns(300, 20'000),
          {.options = {.window_records = 64, .ttl = 50ms}, .cache_bytes = 16 * kMib},
          [](uint64_t record, std::span<const std::byte>) {
    if (record % 41 == 0) std::this_thread::sleep_for(3ms);
    return record % 3 == 0;
  });
  rig.damage(13);
  std::atomic<int> errors{0};
  std::atomic<bool> is_over{false};
  {
    std::vector<std::jthread> others;
    for (uint32_t i = 0; i < 3; ++i) {
      others.emplace_back([&, i] {
        std::minstd_rand random(i + 1);
        while (!is_over) {
          const auto list = rig.prefetcher->open_list();
          for (int part = 0; part < 5; ++part) {
            std::vector<uint64_t> order;
            for (size_t n = random() % 60; n > 0; --n) order.push_back(random() % 300);
            (void)rig.prefetcher->add(list, rig.hints(order));
            std::this_thread::sleep_for(1ms);
          }
          if (random() % 2 == 0) {
            rig.prefetcher->finish(list);
            std::this_thread::sleep_for(20ms);
          }
          rig.prefetcher->drop(list);
        }
      });
    }
    in_threads(4, [&](uint32_t i) {
      std::mt19937 random(100 + i);
      const auto end = Clock::now() + 1500ms;
      for (uint64_t record = 0; Clock::now() < end; ++record) {
        if (record % 50 == 0) drop_cached_pages(rig.path);
        const uint64_t wanted = i % 2 == 0 ? record % 300 : random() % 300;
        try {
          (void)rig.read(wanted, 8192);
        } catch (const ChecksumError&) {
          if (wanted != 13) ++errors;
        }
      }
    });
    is_over = true;
  }
  CHECK(rig.wrong == 0);
  CHECK(errors == 0);
  REQUIRE(rig.settles());
  CHECK(rig.counters.bytes_in_flight.load() == 0);
  CHECK(wait_until([&] { return rig.counters.bytes_prefetched == 0; }));
  CHECK(rig.counters.prefetch_hit + rig.counters.prefetch_late + rig.counters.prefetch_dropped <=
        rig.counters.prefetch_hinted);
}
