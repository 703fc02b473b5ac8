// native/prefetch: a list of hints. Whatever its readers do, it moves on, keeps to its window and
// frees its memory.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "prefetch/hint_list.h"

using namespace ffrfs;

namespace {

using Random = std::mt19937_64;
using State = HintList::State;

constexpr size_t kBatch = 32;
constexpr uint64_t kManyBytes = uint64_t{1} << 40;

Hint hint(uint64_t record) { return {.record = record, .ino = record + 2}; }

// Does random operations on one list, and checks the rules that hold under any policy.
class Trial {
 public:
  Trial(uint64_t seed, size_t window_records, uint64_t window_bytes, uint64_t record_count)
      : random_(seed),
        window_records_(window_records),
        window_bytes_(window_bytes),
        record_count_(record_count),
        list_(window_records, window_bytes) {}

  void run(size_t steps) {
    for (size_t i = 0; i < steps; ++i) {
      step();
      check();
    }
    end();
  }

 private:
  struct Added {
    uint64_t record = 0;
    uint64_t size_bytes = 0;
  };

  void step() {
    switch (random_() % 12) {
      case 0:
      case 1:
        if (!list_.is_finished()) add(random_() % 20);
        break;
      case 2:
      case 3:
      case 4: take(); break;
      case 5:
        if (take()) put_back();
        break;
      case 6:
      case 7: set_state(); break;
      case 8:
      case 9:
      case 10: read(next_record()); break;
      default:
        if (random_() % 200 == 0) list_.finish();
        read(random_() % (record_count_ + 2));
    }
  }

  void add(size_t count) {
    for (; count > 0; --count) {
      const uint64_t record = random_() % record_count_;
      const uint64_t size_bytes = random_() % 20 == 0 ? 5000 : random_() % 50;
      list_.add(hint(record), size_bytes);
      added_.push_back({record, size_bytes});
    }
  }

  // A hint that is taken was pending before. Ahead of all readers, at most a window is taken until
  // a reader has come.
  bool take() {
    std::vector<State> before;
    for (uint64_t i = 0; i < added_.size(); ++i) before.push_back(list_.state(i));
    const auto next = list_.take();
    if (!next) return false;
    REQUIRE(next->index < added_.size());
    REQUIRE(before[next->index] == State::kPending);
    REQUIRE(list_.state(next->index) == State::kFetching);
    REQUIRE(next->hint.record == added_[next->index].record);
    const uint64_t size_bytes = added_[next->index].size_bytes;
    REQUIRE(size_bytes > 0);
    taken_.push_back(next->index);
    if (next->index < farthest_end_) return true;
    ahead_.push_back(size_bytes);
    REQUIRE(ahead_.size() <= window_records_);
    const uint64_t total = std::accumulate(ahead_.begin(), ahead_.end(), uint64_t{0});
    if (ahead_.size() > 1) REQUIRE(total <= window_bytes_);
    return true;
  }

  void put_back() {
    const uint64_t index = taken_.back();
    taken_.pop_back();
    list_.put_back(index);
    REQUIRE(list_.state(index) == State::kPending);
    if (index >= farthest_end_) ahead_.pop_back();
  }

  void set_state() {
    if (taken_.empty()) return;
    const uint64_t index = taken_[random_() % taken_.size()];
    const State to = std::vector{State::kHeld, State::kPushed, State::kDone}[random_() % 3];
    const State was = list_.state(index);
    list_.set_state(index, to);
    REQUIRE(list_.state(index) == (was == State::kDone ? was : to));
  }

  // Return the next record as if several readers kept to the order more or less.
  uint64_t next_record() {
    if (added_.empty()) return 0;
    const uint64_t spread = 1 + random_() % (random_() % 10 == 0 ? 4 * window_records_ : 4);
    const uint64_t index = next_ + random_() % spread;
    next_ = std::max(next_, std::min<uint64_t>(index + 1, added_.size()));
    return added_[std::min<uint64_t>(index, added_.size() - 1)].record;
  }

  // A hint that is still open is found. One read uses up at most one of the record's hints.
  void read(uint64_t record) {
    std::vector<uint64_t> left;  // hints for the record that no read has used up
    bool was_added = false;
    for (uint64_t i = 0; i < added_.size(); ++i) {
      if (added_[i].record != record) continue;
      was_added = true;
      if (list_.state(i) != State::kDone) left.push_back(i);
    }
    const bool is_known = list_.note_read(record, random_() % 2 == 0);
    if (!was_added) REQUIRE_FALSE(is_known);
    if (!left.empty()) REQUIRE(is_known);
    for (const uint64_t index : left) {
      if (list_.state(index) == State::kDone) farthest_end_ = std::max(farthest_end_, index + 1);
    }
    ahead_.clear();
  }

  void check() {
    total_.add(list_.take_tally());
    REQUIRE(total_.all() <= added_.size());
    REQUIRE(list_.size() <= added_.size());
    REQUIRE(list_.room() + list_.size() >= 8192);
    if (!list_.is_over()) return;
    REQUIRE(list_.is_finished());
    for (uint64_t i = 0; i < added_.size(); ++i) {
      const State state = list_.state(i);
      REQUIRE((state == State::kDone || state == State::kPushed));
    }
  }

  // Each hint is counted once. For a record that the kernel holds, it is unknown whether it was
  // read.
  void end() {
    uint64_t empty = 0;
    uint64_t pushed = 0;
    for (uint64_t i = 0; i < added_.size(); ++i) {
      empty += added_[i].size_bytes == 0;
      pushed += list_.state(i) == State::kPushed;
    }
    total_.add(list_.close());
    CHECK(total_.all() + empty <= added_.size());
    CHECK(total_.all() + empty + pushed >= added_.size());
  }

  struct Total {
    uint64_t hit = 0;
    uint64_t late = 0;
    uint64_t dropped = 0;

    void add(const HintList::Tally& tally) {
      hit += tally.hit_count;
      late += tally.late_count;
      dropped += tally.dropped_count;
    }
    [[nodiscard]] uint64_t all() const { return hit + late + dropped; }
  };

  Random random_;
  const size_t window_records_;
  const uint64_t window_bytes_;
  const uint64_t record_count_;
  HintList list_;
  std::vector<Added> added_;
  std::vector<uint64_t> taken_;
  uint64_t next_ = 0;  // about where the readers are
  uint64_t farthest_end_ = 0;    // just behind the farthest hint that was read
  std::vector<uint64_t> ahead_;  // sizes of the hints taken beyond that since the last read
  Total total_;
};

size_t take_all(HintList& list) {
  size_t count = 0;
  while (list.take()) ++count;
  return count;
}

}  // namespace

TEST_CASE("whatever is done to a list, it keeps to its window and counts each hint once") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const size_t window_records = std::vector<size_t>{1, 2, 5, 16, 64}[seed % 5];
    const uint64_t window_bytes = std::vector<uint64_t>{0, 300, 4000, kManyBytes}[seed / 5 % 4];
    const uint64_t record_count = std::vector<uint64_t>{3, 50, 2000}[seed % 3];
    Trial(seed, window_records, window_bytes, record_count).run(800);
  }
}

TEST_CASE("reads in order take each hint once, at most a window ahead") {
  HintList list(16, kManyBytes);
  for (uint64_t i = 0; i < 1000; ++i) list.add(hint(i * 7 % 1000), 10);
  uint64_t next = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    while (const auto taken = list.take()) {
      CHECK(taken->index == next);
      CHECK(taken->hint.record == next * 7 % 1000);
      ++next;
      list.set_state(taken->index, HintList::State::kHeld);
    }
    CHECK(next == std::min<uint64_t>(i + 16, 1000));
    CHECK(list.note_read(i * 7 % 1000, true));
  }
  list.finish();
  CHECK(list.is_over());
  CHECK(list.take_tally().hit_count == 1000);
  CHECK(list.close().dropped_count == 0);
}

TEST_CASE("bytes limit the window too, except for a single record") {
  HintList list(100, 1000);
  for (uint64_t i = 0; i < 10; ++i) list.add(hint(i), i == 5 ? 5000 : 400);
  CHECK(take_all(list) == 2);
  for (uint64_t i = 0; i < 3; ++i) CHECK(list.note_read(i, true));
  CHECK(take_all(list) == 2);  // 3 and 4, because 2 was read before its turn came
  for (uint64_t i = 3; i < 5; ++i) CHECK(list.note_read(i, true));
  CHECK(take_all(list) == 1);  // 5 alone, which is larger than the window
}

TEST_CASE("a window of 0 bytes takes one hint at a time, to the last") {
  HintList list(512, 0);
  for (uint64_t i = 0; i < 40; ++i) list.add(hint(i), 100);
  for (uint64_t i = 0; i < 40; ++i) {
    CHECK(list.wants(kBatch));
    CHECK(take_all(list) == 1);
    CHECK_FALSE(list.wants(kBatch));
    CHECK(list.note_read(i, true));
  }
}

TEST_CASE("a list that nobody follows takes one window, whatever else is read") {
  HintList list(64, kManyBytes);
  for (uint64_t i = 0; i < 5000; ++i) list.add(hint(i), 10);
  size_t taken = 0;
  for (uint64_t i = 0; i < 5000; ++i) {
    taken += take_all(list);
    CHECK_FALSE(list.note_read(10'000 + i, false));
  }
  CHECK(taken == 64);
  list.finish();
  CHECK_FALSE(list.is_over());
  CHECK(list.close().dropped_count == 5000);
}

TEST_CASE("a record that is hinted many times is hit as often") {
  HintList list(8, kManyBytes);
  for (uint64_t i = 0; i < 300; ++i) list.add(hint(7), 10);
  for (uint64_t i = 0; i < 300; ++i) {
    (void)take_all(list);
    CHECK(list.note_read(7, true));
  }
  list.finish();
  CHECK(list.is_over());
  CHECK(list.close().hit_count == 300);
}

TEST_CASE("readers that share a list by batches take each hint once, and none is late") {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    constexpr size_t kWorkers = 4;
    constexpr size_t kBatchSize = 32;
    constexpr uint64_t kCount = 4096;
    Random random(seed);
    std::vector<uint64_t> order(kCount);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    HintList list(512, kManyBytes);
    for (const uint64_t record : order) list.add(hint(record), 1000);
    std::vector<int> taken(kCount);
    std::vector<size_t> place(kWorkers);
    uint64_t late = 0;
    for (uint64_t done = 0; done < kCount; ++done) {
      while (const auto next = list.take()) {
        ++taken[next->hint.record];
        list.set_state(next->index, HintList::State::kHeld);
      }
      size_t at = kCount;
      while (at >= kCount) {
        const size_t worker = random() % kWorkers;
        const size_t slowest = *std::ranges::min_element(place) / kBatchSize;
        if (place[worker] / kBatchSize >= slowest + 2) continue;
        at = (place[worker] / kBatchSize * kWorkers + worker) * kBatchSize +
             place[worker] % kBatchSize;
        if (at < kCount) ++place[worker];
      }
      const bool was_ready = taken[order[at]] > 0;
      if (!was_ready) ++late;
      CHECK(list.note_read(order[at], was_ready));
    }
    CHECK(late == 0);
    CHECK(std::ranges::all_of(taken, [](int count) { return count == 1; }));
  }
}

TEST_CASE("one read far ahead does not move the window; two near each other do") {
  HintList list(16, kManyBytes);
  for (uint64_t i = 0; i < 4000; ++i) list.add(hint(i), 10);
  CHECK(take_all(list) == 16);
  CHECK(list.note_read(1000, false));
  CHECK(list.note_read(3000, false));
  CHECK(list.note_read(2000, false));
  CHECK_FALSE(list.take());
  CHECK(list.note_read(2003, false));
  const auto next = list.take();
  REQUIRE(next);
  CHECK(next->index == 2001);
  CHECK(1 + take_all(list) == 2 + 16);  // 2001, 2002 and a window
  CHECK(list.take_tally().dropped_count > 1900);
}

TEST_CASE("after a read in the window an earlier read far ahead is forgotten") {
  HintList list(16, kManyBytes);
  for (uint64_t i = 0; i < 4000; ++i) list.add(hint(i), 10);
  (void)take_all(list);
  CHECK(list.note_read(1000, false));
  CHECK(list.note_read(0, true));
  CHECK(list.note_read(1001, false));
  CHECK(list.take()->index == 16);
}

// A large file is read in several requests, some of them at the same time.
TEST_CASE("a read of several requests uses up only one hint of its record") {
  HintList list(16, kManyBytes);
  for (uint64_t i = 0; i < 2000; ++i) list.add(hint(i % 500), 10);  // four epochs
  for (uint64_t i = 0; i < 2000; ++i) {
    (void)take_all(list);
    CHECK(list.state(i) == HintList::State::kFetching);
    for (int request = 0; request < 4; ++request) CHECK(list.note_read(i % 500, false));
    CHECK(list.state(i) == HintList::State::kDone);
  }
  CHECK(list.take_tally().late_count == 2000);
}

TEST_CASE("a full list has room again as the reader goes on, and not before") {
  HintList list(512, kManyBytes);
  CHECK(list.room() == 8192);
  for (uint64_t i = 0; i < 8192; ++i) list.add(hint(i), 10);
  CHECK(list.room() == 0);
  for (uint64_t i = 0; i < 8192; ++i) {
    (void)take_all(list);
    (void)list.note_read(i, true);
    CHECK(list.room() == (i + 1 > 1024 ? i + 1 - 1024 : 0));
  }
  HintList wide(10'000, kManyBytes);
  CHECK(wide.room() == 40'000);
}

TEST_CASE("a few hints of every window are markers, by records and by bytes") {
  for (const uint64_t size_bytes : {uint64_t{1}, uint64_t{4000}}) {
    HintList list(64, 64'000);
    for (uint64_t i = 0; i < 1000; ++i) list.add(hint(i), size_bytes);
    size_t since = 0;
    for (uint64_t i = 0; i < 1000; ++i) {
      while (const auto next = list.take()) {
        ++since;
        CHECK(since <= 16);
        if (next->is_marker) since = 0;
      }
      (void)list.note_read(i, true);
    }
  }
}

TEST_CASE("take_coming() gives the records behind the taken ones once, within its limits") {
  HintList list(4, 1000);
  for (uint64_t record = 0; record < 20; ++record) list.add({.record = record}, 10);
  CHECK(list.take_coming(50, 100) == std::vector<uint64_t>{0, 1, 2, 3, 4});
  CHECK(list.take_coming(50, 100).empty());
  for (int i = 0; i < 3; ++i) CHECK(list.take());
  CHECK(list.take_coming(50, 100) == std::vector<uint64_t>{5, 6, 7});
  CHECK(list.take_coming(1000, 9) == std::vector<uint64_t>{8, 9, 10, 11});
  CHECK(list.take_coming(1000, 100).size() == 8);
  CHECK(list.take_coming(1000, 100).empty());
}
