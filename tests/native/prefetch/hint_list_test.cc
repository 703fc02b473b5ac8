// native/volume: a list of hints against a model without any bookkeeping; whatever readers
// do, it goes on, keeps to its window and gives its memory back.

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

// What a list does, said plainly: everything is looked for from the beginning each time.
struct Model {
  struct Entry {
    uint64_t record = 0;
    uint64_t size_bytes = 0;
    State state = State::kPending;
  };

  size_t window_records;
  uint64_t window_bytes;
  std::vector<Entry> entries{};
  uint64_t base = 0;
  uint64_t position = 0;
  uint64_t fetched = 0;
  std::optional<uint64_t> candidate{};
  HintList::Tally tally{};

  [[nodiscard]] uint64_t ahead_bytes() const {
    uint64_t total = 0;
    for (uint64_t index = position; index < fetched; ++index) total += entries[index].size_bytes;
    return total;
  }

  std::optional<uint64_t> take() {
    while (fetched < entries.size() && entries[fetched].state != State::kPending) ++fetched;
    if (fetched >= entries.size()) return std::nullopt;
    if (fetched > position && (fetched - position >= window_records ||
                               ahead_bytes() + entries[fetched].size_bytes > window_bytes)) {
      return std::nullopt;
    }
    entries[fetched].state = State::kFetching;
    return fetched++;
  }

  bool note_read(uint64_t record, bool was_ready) {
    std::optional<uint64_t> first;
    std::optional<uint64_t> passed;
    bool is_known = false;
    bool is_done = false;
    for (uint64_t index = base; index < entries.size(); ++index) {
      if (entries[index].record != record) continue;
      is_known = true;
      if (entries[index].state == State::kDone) {
        is_done = is_done || !(first || passed);  // before any other
      } else if (entries[index].state == State::kPushed && index < position) {
        if (!passed) passed = index;
      } else if (!first) {
        first = index;
      }
    }
    const auto found = first ? first : passed;
    if (!found) return is_known;
    const bool is_near = *found < std::max(fetched, position) + window_records;
    if (!is_near && is_done) return true;
    ++(was_ready ? tally.hit_count : tally.late_count);
    entries[*found].state = State::kDone;
    if (is_near) {
      candidate.reset();
      move_to(*found + 1);
    } else if (!candidate || *candidate < base ||
               std::max(*candidate, *found) - std::min(*candidate, *found) >= window_records) {
      candidate = found;
    } else {
      const uint64_t begin = std::min(*candidate, *found);
      candidate.reset();
      move_to(*found + 1);
      fetched = std::max(begin, base);
    }
    return true;
  }

  void move_to(uint64_t to) {
    position = std::max(position, to);
    for (; base + 2 * window_records < position; ++base) {
      switch (entries[base].state) {
        case State::kDone:
          break;
        case State::kPushed:
          ++tally.hit_count;
          break;
        default:
          ++tally.dropped_count;
      }
    }
    fetched = std::max(fetched, base);
  }
};

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

Hint hint(uint64_t record) { return {.record = record, .ino = record + 2}; }

// One list, and what is done to it, at random.
class Trial {
 public:
  Trial(uint64_t seed, size_t window_records, uint64_t window_bytes, uint64_t record_count)
      : random_(seed),
        record_count_(record_count),
        list_(window_records, window_bytes),
        model_{.window_records = window_records, .window_bytes = window_bytes} {}

  void run(size_t steps) {
    for (size_t i = 0; i < steps; ++i) {
      step();
      check();
    }
    end();
  }

 private:
  void step() {
    switch (random_() % 12) {
      case 0:
      case 1:
        if (!list_.is_finished()) add(random_() % 20);
        break;
      case 2:
      case 3:
      case 4:
        take();
        break;
      case 5:
        if (take()) put_back();
        break;
      case 6:
      case 7:
        set_state();
        break;
      case 8:
      case 9:
      case 10:
        read(next_record());
        break;
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
      // Of an empty one nothing is to be read, and nobody comes for it.
      const State state = size_bytes > 0 ? State::kPending : State::kDone;
      empty_count_ += size_bytes > 0 ? 0 : 1;
      model_.entries.push_back({record, size_bytes, state});
    }
  }

  bool take() {
    const bool was_wanted = list_.wants(kBatch);
    const auto next = list_.take();
    const auto expected = model_.take();
    REQUIRE(next.has_value() == expected.has_value());
    // Nothing in the window, and something to be taken: always.
    if (next && *expected <= model_.position) CHECK(was_wanted);
    if (!next) return false;
    CHECK(next->index == *expected);
    CHECK(next->hint.record == model_.entries[*expected].record);
    taken_.push_back(next->index);
    return true;
  }

  void put_back() {
    const uint64_t index = taken_.back();
    taken_.pop_back();
    list_.put_back(index);
    model_.entries[index].state = State::kPending;
    model_.fetched = index;
  }

  void set_state() {
    if (taken_.empty()) return;
    const uint64_t index = taken_[random_() % taken_.size()];
    const State to = std::vector{State::kHeld, State::kPushed, State::kDone}[random_() % 3];
    list_.set_state(index, to);
    if (index < model_.base || model_.entries[index].state == State::kDone) return;
    model_.entries[index].state = to;
    if (to == State::kDone) ++model_.tally.dropped_count;
  }

  // As several readers do who keep to the order, more or less.
  uint64_t next_record() {
    if (model_.entries.empty()) return 0;
    const uint64_t spread = 1 + random_() % (random_() % 10 == 0 ? 4 * model_.window_records : 4);
    const uint64_t index = model_.position + random_() % spread;
    return model_.entries[std::min<uint64_t>(index, model_.entries.size() - 1)].record;
  }

  void read(uint64_t record) {
    const bool was_ready = random_() % 2 == 0;
    CHECK(list_.note_read(record, was_ready) == model_.note_read(record, was_ready));
  }

  void check() {
    const HintList::Tally tally = list_.take_tally();
    REQUIRE(tally.hit_count == model_.tally.hit_count);
    REQUIRE(tally.late_count == model_.tally.late_count);
    REQUIRE(tally.dropped_count == model_.tally.dropped_count);
    model_.tally = {};
    total_.add(tally);
    REQUIRE(list_.room() == 8192 - std::min<size_t>(8192, model_.entries.size() - model_.base));
    const auto is_left = [](const Model::Entry& entry) {
      return entry.state != State::kDone && entry.state != State::kPushed;
    };
    REQUIRE(list_.is_over() ==
            (list_.is_finished() && model_.position >= model_.entries.size() &&
             std::none_of(model_.entries.begin() + static_cast<ptrdiff_t>(model_.base),
                          model_.entries.end(), is_left)));
    check_window();
    if (random_() % 16 != 0) return;
    for (uint64_t index = 0; index < model_.entries.size(); ++index) {
      const State expected = index < model_.base ? State::kDone : model_.entries[index].state;
      REQUIRE(list_.state(index) == expected);
    }
  }

  // Of what is ahead of the readers and was not read: no more than the window, but for one
  // record that is larger.
  void check_window() const {
    uint64_t count = 0;
    uint64_t total = 0;
    uint64_t largest = 0;
    for (uint64_t index = model_.position; index < model_.fetched; ++index) {
      const Model::Entry& entry = model_.entries[index];
      if (entry.state == State::kDone) continue;
      ++count;
      total += entry.size_bytes;
      largest = std::max(largest, entry.size_bytes);
    }
    REQUIRE(count <= model_.window_records);
    REQUIRE(total - largest <= model_.window_bytes);
  }

  void end() {
    uint64_t unknown = 0;
    for (uint64_t index = model_.base; index < model_.entries.size(); ++index) {
      unknown += model_.entries[index].state == State::kPushed && index >= model_.position;
    }
    total_.add(list_.close());
    CHECK(total_.all() + unknown + empty_count_ == model_.entries.size());
  }

  Random random_;
  const uint64_t record_count_;
  HintList list_;
  Model model_;
  std::vector<uint64_t> taken_;
  Total total_;
  uint64_t empty_count_ = 0;
};

size_t take_all(HintList& list) {
  size_t count = 0;
  while (list.take()) ++count;
  return count;
}

}  // namespace

TEST_CASE("whatever is done to it, a list is as its model") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const size_t window_records = std::vector<size_t>{1, 2, 5, 16, 64}[seed % 5];
    const uint64_t window_bytes = std::vector<uint64_t>{0, 300, 4000, kManyBytes}[seed / 5 % 4];
    const uint64_t record_count = std::vector<uint64_t>{3, 50, 2000}[seed % 3];
    Trial(seed, window_records, window_bytes, record_count).run(1500);
  }
}

TEST_CASE("in order: each is taken once, no more than a window ahead") {
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

TEST_CASE("bytes bound the window too, but for one record") {
  HintList list(100, 1000);
  for (uint64_t i = 0; i < 10; ++i) list.add(hint(i), i == 5 ? 5000 : 400);
  CHECK(take_all(list) == 2);
  for (uint64_t i = 0; i < 3; ++i) CHECK(list.note_read(i, true));
  CHECK(take_all(list) == 2);  // 3 and 4: 2 was read before its turn came
  for (uint64_t i = 3; i < 5; ++i) CHECK(list.note_read(i, true));
  CHECK(take_all(list) == 1);  // larger than the window
}

TEST_CASE("a window without bytes takes one at a time, to the last") {
  HintList list(512, 0);
  for (uint64_t i = 0; i < 40; ++i) list.add(hint(i), 100);
  for (uint64_t i = 0; i < 40; ++i) {
    CHECK(list.wants(kBatch));
    CHECK(take_all(list) == 1);
    CHECK_FALSE(list.wants(kBatch));
    CHECK(list.note_read(i, true));
  }
}

TEST_CASE("a wrong list takes one window, whatever else is read") {
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

TEST_CASE("a list of one record many times is read as often") {
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

TEST_CASE("readers that share a list by batches, out of order: nothing is taken twice or left") {
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

TEST_CASE("one read far ahead is anybody's; two near each other move the window there") {
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
  CHECK(1 + take_all(list) == 2 + 16);  // those between, and a window
  CHECK(list.take_tally().dropped_count > 1900);
}

TEST_CASE("a read near by forgets the one far ahead") {
  HintList list(16, kManyBytes);
  for (uint64_t i = 0; i < 4000; ++i) list.add(hint(i), 10);
  (void)take_all(list);
  CHECK(list.note_read(1000, false));
  CHECK(list.note_read(0, true));
  CHECK(list.note_read(1001, false));
  CHECK(list.take()->index == 16);
}

// A large file is read in several requests, also at once.
TEST_CASE("a read of several requests does not use up what is hinted of it for later") {
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

TEST_CASE("there is room again as the reader goes on, and not before") {
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

TEST_CASE("a few of every window are markers, by records and by bytes") {
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
