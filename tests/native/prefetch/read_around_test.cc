// native/prefetch: neighbours of a READ are read as long as they are used, and not where they are
// not. The kernel's page cache is a model: a file in it needs no READ, and the oldest file leaves
// first. The test has its own clock.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "prefetch/read_around.h"

using namespace ffrfs;

namespace {

constexpr uint64_t kCount = 20'000;
constexpr uint64_t kSize = 4500;
constexpr ReadAround::Amounts kSmallFiles{
    .records = kCount, .bytes = kCount * kSize, .files = kCount};
constexpr uint64_t kRegion = ReadAround::kRegionBytes / kSize;
constexpr uint64_t kLargeCount = 6000;
constexpr uint64_t kLargeSize = 110'000;
constexpr ReadAround::Amounts kLargeFiles{
    .records = kLargeCount, .bytes = kLargeCount * kLargeSize, .files = kLargeCount};

struct Kernel {
  inline static ReadAround::Clock::time_point now;

  Counters counters;

  explicit Kernel(ReadAroundMode mode = ReadAroundMode::kAuto, uint64_t capacity = kCount,
                  ReadAround::Amounts amounts = kSmallFiles)
      : around(amounts, mode, counters, [] { return now; }),
        size_(amounts.bytes / amounts.records),
        capacity_(capacity),
        is_held_(amounts.records) {
    around.set_budget(capacity * size_ / 2);
  }

  void list() {
    for (uint64_t record = 0; record < is_held_.size(); ++record) around.note_known(record);
  }

  // Reads a file. A region that is wanted is pushed only after every `lag`th file.
  void read(uint64_t record, size_t lag = 20) {
    now += read_time;
    if (!is_held_[record]) {
      ++reads;
      hold(record);
      (void)around.note_read(record, !storage);
      if (storage) around.note_stored(size_, taken_ ? storage->beside : storage->alone);
    }
    if (++ticks_ % lag == 0) push_region();
  }
  void read_all(const std::vector<uint64_t>& records) {
    for (const uint64_t record : records) read(record);
  }

  // Pushes a region. With `storage` that is the one taken the last time, so READs come beside it.
  void push_region() {
    auto region = storage ? std::exchange(taken_, around.take()) : around.take();
    if (!region) return;
    ++regions;
    ReadAround::Outcome outcome;
    if (storage) {
      outcome.read_bytes = ReadAround::kRegionBytes;
      outcome.elapsed = storage->region;
    }
    for (uint64_t record = region->begin; record < region->end; ++record) {
      if (!around.is_to_push(record)) continue;
      around.note_pushed(record);
      hold(record);
      ++outcome.pushed;
    }
    pushed += outcome.pushed;
    around.finish(*region, outcome);
  }

  struct Storage {  // how long READs wait (alone, or beside a region), and how long a region takes
    ReadAround::Clock::duration alone, beside, region;
  };

  ReadAround around;
  ReadAround::Clock::duration read_time = std::chrono::microseconds(10);
  std::optional<Storage> storage;  // nullopt: the page cache has all of the pack
  uint64_t reads = 0;
  uint64_t pushed = 0;
  uint64_t regions = 0;

 private:
  void hold(uint64_t record) {
    if (is_held_[record]) return;
    is_held_[record] = true;
    held_.push_back(record);
    if (held_.size() <= capacity_) return;
    is_held_[held_.front()] = false;
    held_.pop_front();
  }

  std::optional<Region> taken_;
  const uint64_t size_;
  const uint64_t capacity_;
  std::vector<bool> is_held_;
  std::deque<uint64_t> held_;
  uint64_t ticks_ = 0;
};

std::vector<uint64_t> shuffled(uint64_t count, unsigned seed) {
  std::vector<uint64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), std::mt19937_64(seed));
  return all;
}

}  // namespace

TEST_CASE("most of a shuffled epoch is pushed") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Kernel kernel;
    kernel.list();
    kernel.read_all(shuffled(kCount, seed));
    CHECK(kernel.reads + kernel.pushed == kCount);  // each file once
    CHECK(kernel.reads < kCount / 6);
    CHECK(kernel.reads > kCount / ReadAround::kControlShare / 2);  // at least the controls
  }
}

TEST_CASE("the cost of reading a region decides how dense its READs must be") {
  using std::chrono::microseconds;
  constexpr auto kAlone = microseconds(300);
  constexpr auto kRegionTime = microseconds(3500);
  for (const auto beside : {kAlone, 3 * kAlone}) {
    const bool is_dear = beside > kAlone;
    for (const uint64_t count : {kLargeCount / 10, kLargeCount}) {
      Kernel kernel(ReadAroundMode::kAuto, kLargeCount, kLargeFiles);
      kernel.list();
      kernel.storage = {.alone = kAlone, .beside = beside, .region = kRegionTime};
      std::vector<uint64_t> order = shuffled(kLargeCount, 1);
      order.resize(count);
      for (const uint64_t record : order) kernel.read(record, 3);
      const bool is_epoch = count == kLargeCount;
      // The density from which regions pay, with kThreads = 3 that read them:
      // (110 KB / 300 µs - 110 KB / 900 µs) / (3 * 1 MiB / 3500 µs) = 0.27.
      if (is_dear && !is_epoch) CHECK(kernel.regions <= 10);
      if (is_dear && is_epoch) CHECK(kernel.reads > kLargeCount / 5);
      if (is_epoch) CHECK(kernel.reads < kLargeCount / 2);
      if (!is_dear && !is_epoch) CHECK(kernel.regions > 20);
    }
  }
}

TEST_CASE("once half of the regions had READs at random, take_rest() gives the others") {
  for (const bool is_shuffled : {true, false}) {
    Kernel kernel(ReadAroundMode::kAuto, kLargeCount, kLargeFiles);
    std::vector<uint64_t> order = shuffled(kLargeCount, 1);
    if (!is_shuffled) std::ranges::sort(order);
    constexpr uint64_t kRegionRecords = ReadAround::kRegionBytes / kLargeSize;
    constexpr uint64_t kRegions = (kLargeCount + kRegionRecords - 1) / kRegionRecords;
    std::vector<bool> is_touched(kRegions);
    uint64_t touched = 0;
    for (const uint64_t record : order) {
      kernel.read(record, kLargeCount);  // the lag is so large that nothing is pushed
      touched += is_touched[record / kRegionRecords] ? 0 : 1;
      is_touched[record / kRegionRecords] = true;
      if (2 * touched >= kRegions) break;
      CHECK(kernel.around.take_rest(4).empty());
    }
    std::vector<uint64_t> rest;
    for (auto more = kernel.around.take_rest(4); !more.empty(); more = kernel.around.take_rest(4)) {
      CHECK(more.size() <= 4);
      for (const Region& region : more) rest.push_back(region.begin / kRegionRecords);
    }
    if (!is_shuffled) CHECK(rest.empty());
    if (is_shuffled) CHECK(rest.size() == kRegions - touched);
    for (const uint64_t region : rest) CHECK(!is_touched[region]);
  }
}

TEST_CASE("a part of the pack that is read densely is pushed, and no other") {
  Kernel kernel;
  kernel.list();
  const uint64_t begin = 20 * kRegion;
  for (const uint64_t number : shuffled(10 * kRegion, 3)) kernel.read(begin + number);
  CHECK(kernel.reads < 10 * kRegion / 3);
  CHECK(kernel.regions <= 10);
  CHECK(kernel.reads + kernel.pushed == 10 * kRegion);
}

TEST_CASE("nothing is pushed if one file in a hundred is read") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Kernel kernel;
    kernel.list();
    const std::vector<uint64_t> order = shuffled(kCount, seed);
    for (uint64_t i = 0; i < kCount / 100; ++i) kernel.read(order[i], 1);
    CHECK(kernel.pushed == 0);
  }
}

TEST_CASE("nothing is pushed if a few files are read again and again") {
  Kernel kernel(ReadAroundMode::kAuto, 50);  // room for half of the files below
  kernel.list();
  const std::vector<uint64_t> order = shuffled(kCount, 1);
  for (unsigned pass = 0; pass < 200; ++pass) {
    for (uint64_t i = 0; i < 100; ++i) kernel.read(order[i], 1);
  }
  CHECK(kernel.pushed == 0);
}

TEST_CASE("a data set of ten times the memory is hardly read more than readers ask for") {
  using namespace std::chrono_literals;
  struct Trial {
    ReadAround::Clock::duration read_time, learning;  // during `learning`, more may be read
  };
  for (const auto& [read_time, learning] : {Trial{10us, 0s}, Trial{100us, 4s}, Trial{1ms, 4s}}) {
    for (unsigned seed = 0; seed < 10; ++seed) {
      Kernel kernel(ReadAroundMode::kAuto, kCount / 10);
      kernel.read_time = read_time;
      kernel.list();
      const auto end = Kernel::now + learning;
      uint64_t asked = 0;
      uint64_t before = 0;
      for (unsigned epoch = 0; epoch < 3; ++epoch) {
        for (const uint64_t record : shuffled(kCount, seed + epoch)) {
          if (Kernel::now >= end) ++asked;
          kernel.read(record);
          if (asked == 0) before = kernel.reads + kernel.pushed;
        }
      }
      CHECK(asked >= kCount);
      CHECK(kernel.reads + kernel.pushed - before <= asked * 11 / 10);
    }
  }
}

TEST_CASE("pushing stops for seconds when pushed files are evicted unread") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Kernel kernel(ReadAroundMode::kAuto, kCount / 20);
    kernel.read_time = std::chrono::microseconds(200);
    kernel.list();
    kernel.read_all(shuffled(kCount, seed));
    CHECK(kernel.pushed < kCount / 5);
    CHECK(kernel.counters.around_given_up == 1);
  }
}

TEST_CASE("READs of files that are being pushed do not count as evictions") {
  for (const bool is_ended : {false, true}) {
    Counters counters;
    ReadAround around(kSmallFiles, ReadAroundMode::kOn, counters);
    around.set_budget(kCount * kSize);
    CHECK(around.note_read(0, true));
    const Region region = around.take().value();
    for (uint64_t record = 1; record < kRegion; ++record) around.note_pushed(record);
    if (is_ended) around.finish(region, {.pushed = kRegion - 1});
    for (uint64_t i = 0; i < 64; ++i) {
      (void)around.note_read(2 * i + 1, true);
      (void)around.note_read(10'000 + 7 * i, true);
    }
    CHECK(counters.around_given_up == (is_ended ? 1 : 0));
  }
}

TEST_CASE("an epoch is pushed again after the page cache was dropped") {
  Kernel before;
  before.list();
  before.read_all(shuffled(kCount, 1));
  Kernel after(ReadAroundMode::kAuto, kCount);  // its page cache is empty
  after.list();
  for (uint64_t record = 0; record < kCount; ++record) (void)after.around.note_read(record, true);
  after.read_all(shuffled(kCount, 2));
  CHECK(after.pushed > kCount / 3);
}

TEST_CASE("reading in order leads to pushes only if the page cache has the pack") {
  for (const bool is_cached : {true, false}) {
    Kernel kernel;
    if (!is_cached) kernel.storage.emplace();
    kernel.list();
    for (uint64_t record = 0; record < kCount; ++record) kernel.read(record, 1);
    if (is_cached) CHECK(kernel.pushed > kCount * 9 / 10);
    if (!is_cached) CHECK(kernel.pushed == 0);
  }
}

TEST_CASE("short runs in order, here and there, lead to no pushes") {
  for (const uint64_t length : {uint64_t{3}, uint64_t{16}, kRegion / 5}) {
    Kernel kernel;
    kernel.list();
    for (const uint64_t region : shuffled(kCount / kRegion, 1)) {
      for (uint64_t i = 0; i < length; ++i) kernel.read(region * kRegion + i, 1);
    }
    CHECK(kernel.pushed == 0);
  }
}

TEST_CASE("pushing stops when no READ comes for the controls") {
  Kernel kernel;
  kernel.list();
  // First a part is read densely, but its other files are not wanted afterwards.
  const std::vector<uint64_t> dense = shuffled(40 * kRegion, 5);
  for (uint64_t i = 0; i < dense.size() / 20; ++i) kernel.read(dense[i], 1);
  const uint64_t begun = kernel.pushed;
  CHECK(begun > 0);
  const std::vector<uint64_t> rest = shuffled(kCount - 40 * kRegion, 6);
  for (uint64_t i = 0; i < rest.size() / 4; ++i) kernel.read(40 * kRegion + rest[i], 1);
  // Pushing goes on in the rest only because that is dense, too; all is never taken at once.
  CHECK(kernel.pushed < kCount);
}

TEST_CASE("nothing is taken without a budget") {
  Kernel kernel;
  kernel.around.set_budget(0);
  kernel.list();
  kernel.read_all(shuffled(kCount, 1));
  CHECK(kernel.regions == 0);
  CHECK(kernel.reads == kCount);
}

TEST_CASE("nothing is taken in mode off, nor for large files") {
  Kernel off(ReadAroundMode::kOff);
  off.list();
  off.read_all(shuffled(kCount, 1));
  CHECK(off.regions == 0);
  constexpr ReadAround::Amounts large{.records = 2000, .bytes = 2000 * (1 << 20), .files = 2000};
  Kernel photographs(ReadAroundMode::kOn, kCount, large);
  photographs.list();
  photographs.read_all(shuffled(2000, 1));
  CHECK(photographs.regions == 0);
}

TEST_CASE("in mode on, the first READ of a region is enough to push it") {
  Kernel kernel(ReadAroundMode::kOn);
  kernel.list();
  kernel.read(5 * kRegion + 7, 1);
  CHECK(kernel.pushed > kRegion / 2);
}

TEST_CASE("files whose inodes the kernel does not know are not pushed") {
  Kernel kernel(ReadAroundMode::kOn);
  for (uint64_t record = 0; record < kCount; record += 2) kernel.around.note_known(record);
  for (const uint64_t record : shuffled(kCount, 1)) {
    kernel.read(record, 1);
    CHECK((record % 2 == 0 || !kernel.around.is_to_push(record)));
  }
  CHECK(kernel.pushed <= kCount / 2);
}

TEST_CASE("a region of names unknown to the kernel is read once, until it learns them") {
  constexpr uint64_t kRegions = (kCount + kRegion - 1) / kRegion;
  Kernel kernel;
  const std::vector<uint64_t> order = shuffled(kCount, 1);
  for (uint64_t i = 0; i < kCount; ++i) {
    if (i == kCount / 2) {
      CHECK(kernel.regions > kRegions / 2);
      CHECK(kernel.regions <= kRegions);
      kernel.list();
    }
    if (i < kCount / 2) kernel.around.note_known(order[i]);  // opened by its path
    kernel.read(order[i], 1);
  }
  CHECK(kernel.regions <= 2 * kRegions);
  CHECK(kernel.pushed > kCount / 3);
}

TEST_CASE("a pass that was cut short, or whose pages were evicted since, is repeated") {
  for (const bool is_cut : {true, false}) {
    Counters counters;
    ReadAround around(kSmallFiles, ReadAroundMode::kOn, counters);
    around.set_budget(kCount * kSize);
    CHECK(around.note_read(0, true));
    around.finish(around.take().value(), {.is_cut = is_cut});
    CHECK(around.note_read(7, true) == is_cut);
    if (is_cut) around.finish(around.take().value(), {});
    CHECK_FALSE(around.note_read(14, true));
    CHECK(around.note_read(21, false));
  }
}

TEST_CASE("files whose names the kernel learns during a pass are pushed by the next") {
  Kernel kernel(ReadAroundMode::kOn);
  CHECK(kernel.around.note_read(0, true));
  const Region region = kernel.around.take().value();
  kernel.list();
  kernel.around.finish(region, {});
  kernel.read(7, 1);
  CHECK(kernel.pushed > kRegion / 2);
}

TEST_CASE("many threads can note READs and take regions at once") {
  Counters counters;
  ReadAround around(kSmallFiles, ReadAroundMode::kAuto, counters);
  around.set_budget(kCount * kSize);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 3; ++i) {
    threads.emplace_back([&around, i] {
      for (const uint64_t record : shuffled(kCount, i)) {
        around.note_known(record);
        (void)around.note_read(record, true);
        const auto region = around.take();
        if (!region) continue;
        ReadAround::Outcome outcome;
        for (uint64_t each = region->begin; each < region->end; ++each) {
          if (!around.is_to_push(each)) continue;
          around.note_pushed(each);
          ++outcome.pushed;
        }
        around.finish(*region, outcome);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("warming takes the wanted records front to back, and no others") {
  Kernel kernel(ReadAroundMode::kOff);
  kernel.list();
  std::vector<bool> wanted(kCount);
  for (uint64_t record = 100; record < 5000; record += 2) wanted[record] = true;
  const auto count = static_cast<uint64_t>(std::ranges::count(wanted, true));
  kernel.around.warm({.records = wanted, .copies = {}});
  CHECK(kernel.counters.warm_left == count);
  uint64_t last = 0;
  for (auto region = kernel.around.take(); region; region = kernel.around.take()) {
    CHECK(region->begin >= last);
    last = region->begin;
    REQUIRE(region->warmed);
    ReadAround::Outcome outcome;
    for (uint64_t record = region->begin; record < region->end; ++record) {
      outcome.pushed += region->warmed->records[record] && kernel.around.is_to_warm(record) ? 1 : 0;
    }
    kernel.around.finish(*region, outcome);
  }
  CHECK(kernel.counters.warm_pushed == count);
  CHECK(kernel.counters.warm_left == 0);
  CHECK_FALSE(kernel.around.has_work());
}

TEST_CASE("warming leaves out files that the budget has no room for") {
  Kernel kernel;
  kernel.list();
  kernel.around.set_budget(kCount / 4 * kSize);
  kernel.around.warm({.records = std::vector<bool>(kCount, true), .copies = {}});
  while (kernel.around.has_work()) kernel.push_region();
  CHECK(kernel.counters.warm_left == 0);
  CHECK(kernel.counters.warm_left_out > kCount / 2);
  CHECK(kernel.counters.warm_left_out < kCount * 4 / 5);
}
