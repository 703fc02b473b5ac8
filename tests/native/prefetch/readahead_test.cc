// native/prefetch: reads in order are recognised and continued; all others are left alone.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "prefetch/readahead.h"
#include "tree/flat_tree.h"
#include "tree/tree_builder.h"
#include "union/union_tree.h"

using namespace ffrfs;

namespace {

using Random = std::mt19937_64;

constexpr size_t kWindow = 512;
constexpr size_t kBatch = 32;

// Return `count` files in folders of `width` files each; file i of the listing is record
// records[i]. Names are numbers from `first` on.
std::unique_ptr<PickleTree> folders(const std::vector<uint64_t>& records, size_t width,
                                    size_t first = 0) {
  TreeBuilder builder("packed.ffr", records.size() + 1);
  const auto padded = [first](size_t number) {
    const std::string digits = std::to_string(first + number);
    return std::string(8 - digits.size(), '0') + digits;
  };
  const auto root = builder.add_directory();
  TreeBuilder::DirectoryId folder = root;
  for (size_t i = 0; i < records.size(); ++i) {
    if (i % width == 0) {
      folder = builder.add_directory();
      builder.place_directory(root, builder.add_name(padded(i)), folder);
    }
    builder.place_file(folder, builder.add_name(padded(i)), static_cast<int64_t>(records[i]));
  }
  return builder.finish();
}

std::vector<uint64_t> numbers(size_t count) {
  std::vector<uint64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<uint64_t> shuffled(size_t count, Random& random) {
  std::vector<uint64_t> all = numbers(count);
  std::shuffle(all.begin(), all.end(), random);
  return all;
}

// A reader: it counts its reads, and how many records were already there.
struct Reads {
  explicit Reads(const Tree& tree, uint64_t count, bool has_files = true, size_t window = kWindow)
      : readahead(tree, count, has_files, window), state(count, State::kNowhere) {}

  enum class State : uint8_t { kNowhere, kHeld, kPushed };

  // With `pushes` the kernel knows all inodes, so that it only sends READs for what was not pushed.
  void read(uint64_t record) {
    ++read_count;
    State& found = state[record];
    if (found != State::kNowhere) ++hit_count;
    if (found != State::kPushed) readahead.note_read(record, readahead.file_of(record));
    if (found == State::kHeld) found = State::kNowhere;
    while (readahead.wants(kBatch)) {
      size_t taken = 0;
      while (const auto next = readahead.take(kBatch)) {
        ++taken;
        take(*next);
      }
      if (taken == 0) break;
    }
  }

  void take(const Readahead::Next& next) {
    ++taken_count;
    run = next.run;
    State& now = state.at(next.record);
    if (now != State::kNowhere) ++twice_count;
    now = pushes && !next.is_marker ? State::kPushed : State::kHeld;
  }

  Readahead readahead;
  std::vector<State> state;
  bool pushes = false;
  uint64_t read_count = 0;
  uint64_t hit_count = 0;
  uint64_t taken_count = 0;
  uint64_t twice_count = 0;
  uint64_t run = 0;  // the run of the record that was taken last
};

}  // namespace

TEST_CASE("a run of records is recognised at its third, and read ahead to the end") {
  for (const bool pushes : {false, true}) {
    CAPTURE(pushes);
    const FlatTree tree(3000);
    Reads reads(tree, 3000);
    reads.pushes = pushes;
    reads.read(10);
    reads.read(11);
    CHECK(reads.taken_count == 0);
    reads.read(12);
    CHECK(reads.taken_count > 0);
    for (uint64_t record = 13; record < 3000; ++record) reads.read(record);
    CHECK(reads.hit_count == 2987);  // each read after the third
    CHECK(reads.taken_count == 2987);
    CHECK(reads.twice_count == 0);
  }
}

TEST_CASE("reads in the listing's order are read ahead even if the records have another order") {
  Random random(1);
  for (const bool pushes : {false, true}) {
    for (const size_t width : {size_t{100}, size_t{5000}}) {
      CAPTURE(pushes);
      CAPTURE(width);
      const std::vector<uint64_t> records = shuffled(3000, random);
      const auto tree = folders(records, width);
      Reads reads(*tree, 3001);
      reads.pushes = pushes;
      for (const uint64_t record : records) reads.read(record);
      CHECK(reads.hit_count >= 2990);
      CHECK(reads.taken_count <= 3000);
      CHECK(reads.twice_count == 0);
    }
  }
}

TEST_CASE("the listing's order is followed in each pack of a set") {
  constexpr uint64_t kEach = 1000;
  Random random(2);
  std::vector<UnionPart> parts;
  std::vector<uint64_t> order;
  for (uint64_t first = 0; first < 3 * (kEach + 1); first += kEach + 1) {
    const std::vector<uint64_t> records = shuffled(kEach, random);
    for (const uint64_t record : records) order.push_back(first + record);
    parts.push_back({folders(records, 100, first), first, "packed.ffr"});
  }
  const UnionTree tree(std::move(parts), OnConflict::kError);
  Reads reads(tree, 3 * (kEach + 1));
  for (const uint64_t record : order) reads.read(record);
  CHECK(reads.hit_count >= 3 * (kEach - 10));
  CHECK(reads.twice_count == 0);
}

TEST_CASE("if both orders are the same, only one is followed") {
  const auto tree = folders(numbers(2000), 100);
  Reads reads(*tree, 2001);
  for (uint64_t record = 0; record < 2000; ++record) reads.read(record);
  CHECK(reads.hit_count >= 1990);
  CHECK(reads.taken_count <= 2000);
  CHECK(reads.twice_count == 0);
}

TEST_CASE("several interleaved runs are read ahead at once") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const FlatTree tree(80'000);
    Reads reads(tree, 80'000);
    reads.pushes = seed % 2 == 1;
    std::vector<uint64_t> next;
    for (uint64_t run = 0; run < 8; ++run) next.push_back(run * 10'000);
    for (int i = 0; i < 16'000; ++i) reads.read(next[random() % next.size()]++);
    CHECK(reads.hit_count >= 16'000 - 8 * 4);
    CHECK(reads.taken_count <= reads.hit_count + 8 * kWindow);
    CHECK(reads.twice_count == 0);
  }
}

// As in torch's DataLoader, worker k % 4 reads batch k. It may be two of its batches ahead.
TEST_CASE("nearly all is read ahead once for four readers that share an order by batches") {
  for (const size_t batch : {size_t{8}, size_t{32}}) {
    for (const bool listing : {false, true}) {
      for (uint32_t seed = 0; seed < 8; ++seed) {
        CAPTURE(batch);
        CAPTURE(listing);
        CAPTURE(seed);
        Random random(seed);
        constexpr size_t kCount = 20'000;
        constexpr size_t kWorkers = 4;
        const auto records = listing ? shuffled(kCount, random) : numbers(kCount);
        const auto tree = folders(records, kCount);
        Reads reads(*tree, kCount + 1);
        reads.pushes = seed % 2 == 1;
        std::vector<size_t> place(kWorkers);  // how many records each worker has read
        const auto position = [&](size_t worker) {
          return (place[worker] / batch * kWorkers + worker) * batch + place[worker] % batch;
        };
        while (true) {
          std::vector<size_t> able;
          size_t slowest = kCount;
          for (size_t worker = 0; worker < kWorkers; ++worker) {
            slowest = std::min(slowest, position(worker) / batch);
          }
          for (size_t worker = 0; worker < kWorkers; ++worker) {
            const size_t at = position(worker);
            if (at < kCount && at / batch < slowest + 2 * kWorkers) able.push_back(worker);
          }
          if (able.empty()) break;
          const size_t worker = able[random() % able.size()];
          reads.read(records[position(worker)]);
          ++place[worker];
        }
        REQUIRE(reads.read_count == kCount);
        CHECK(reads.hit_count >= kCount * 98 / 100);
        CHECK(reads.twice_count <= kCount / 200);
        CHECK(reads.taken_count <= kCount + kCount / 200);
      }
    }
  }
}

// What is read ahead is at most 2 % of what is read.
TEST_CASE("access at random is hardly read ahead") {
  for (const size_t count : {size_t{200}, size_t{1000}, size_t{20'000}}) {
    double worst = 0;
    uint64_t taken = 0;
    uint64_t asked = 0;
    const uint32_t seeds = count == 20'000 ? 8 : 60;
    for (uint32_t seed = 0; seed < seeds; ++seed) {
      Random random(seed);
      const auto tree = folders(shuffled(count, random), 100);
      Reads reads(*tree, count + 1);
      const bool again = seed % 2 == 1;  // records are drawn with replacement
      const size_t readers = seed % 4 < 2 ? 1 : 4;
      const size_t epochs = std::max<size_t>(1, 2000 / count);
      for (size_t epoch = 0; epoch < epochs; ++epoch) {
        std::vector<std::vector<uint64_t>> orders;
        for (size_t reader = 0; reader < readers; ++reader)
          orders.push_back(shuffled(count, random));
        for (size_t i = 0; i < count; ++i) {
          for (size_t reader = 0; reader < readers; ++reader) {
            reads.read(again ? random() % count : orders[reader][i]);
          }
        }
      }
      worst = std::max(
          worst, static_cast<double>(reads.taken_count) / static_cast<double>(reads.read_count));
      taken += reads.taken_count;
      asked += reads.read_count;
    }
    MESSAGE(count << " records: at worst " << worst << ", on average "
                  << static_cast<double>(taken) / static_cast<double>(asked));
    CHECK(worst <= 0.02);
  }
}

TEST_CASE("a folder that is read again is read ahead again, wherever the first pass has ended") {
  for (const size_t count : {size_t{200}, size_t{1000}, size_t{5000}}) {
    for (const size_t stop : {count / 3, count - 100, count}) {
      for (const size_t start : {size_t{0}, stop / 2}) {
        CAPTURE(count);
        CAPTURE(stop);
        CAPTURE(start);
        const auto tree = folders(numbers(count), 50);
        Reads reads(*tree, count + 1);
        for (uint64_t record = 0; record < stop; ++record) reads.read(record);
        const uint64_t first_hits = reads.hit_count;
        CHECK(first_hits >= stop - 3);
        // Records that were read ahead and not used have expired.
        std::ranges::fill(reads.state, Reads::State::kNowhere);
        for (uint64_t record = start; record < count; ++record) reads.read(record);
        // At first it seems to share the run that was left, and what that run has read ahead.
        const size_t lost = start == 0 ? 70 : 150;
        CHECK(reads.hit_count - first_hits + lost >= count - start);
      }
    }
  }
}

TEST_CASE("readahead stops at the last record and the last file") {
  for (const bool has_files : {false, true}) {
    CAPTURE(has_files);
    const auto tree = folders(numbers(40), 7);  // record 40 is the index
    Reads reads(*tree, 41, has_files);
    for (uint64_t record = 0; record < 40; ++record) reads.read(record);
    CHECK(reads.hit_count == 37);
    CHECK(reads.taken_count == (has_files ? 37 : 38));
    CHECK(reads.twice_count == 0);
    reads.read(39);
    reads.read(40);
    CHECK_FALSE(reads.readahead.wants(1));
  }
  // The listing's last file is the first record.
  std::vector<uint64_t> records = numbers(40);
  std::ranges::reverse(records);
  const auto tree = folders(records, 40);
  Reads reads(*tree, 41);
  for (const uint64_t record : records) reads.read(record);
  CHECK(reads.hit_count == 37);
  CHECK(reads.taken_count == 37);
}

TEST_CASE("readahead works with one record or none, and with a window of one or none") {
  const FlatTree tree(100);
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}}) {
    Readahead readahead(tree, count, true, kWindow);
    for (int i = 0; i < 5; ++i) readahead.note_read(0, readahead.file_of(0));
    CHECK_FALSE(readahead.take(kBatch));
  }
  Reads none(tree, 100, true, 0);
  Reads one(tree, 100, true, 1);
  for (uint64_t record = 0; record < 100; ++record) {
    none.read(record);
    one.read(record);
  }
  CHECK(none.taken_count == 0);
  CHECK(one.hit_count == 97);
  CHECK(one.taken_count == 97);
}

TEST_CASE("the same record read many times is no run") {
  const FlatTree tree(5000);
  Reads reads(tree, 5000);
  for (int i = 0; i < 100; ++i) reads.read(7);
  for (int i = 0; i < 100; ++i) reads.read(static_cast<uint64_t>(99 - i));  // in reverse order
  CHECK(reads.taken_count == 0);
}

TEST_CASE("the window doubles while it is used, and is halved by waste") {
  const FlatTree tree(100'000);
  Reads reads(tree, 100'000, true, 64);
  uint64_t record = 0;
  const auto ahead = [&] { return reads.taken_count - reads.hit_count; };
  for (; record < 3; ++record) reads.read(record);
  CHECK(ahead() == 8);
  for (; record < 300; ++record) {
    reads.read(record);
    CHECK(ahead() <= 64);
  }
  CHECK(ahead() > 32);
  for (int i = 0; i < 10; ++i) reads.readahead.note_waste(reads.run);
  const uint64_t before = reads.taken_count;
  while (reads.taken_count == before) reads.read(record++);
  CHECK(ahead() <= 4);  // the window may have grown again, once or twice
  reads.readahead.note_waste(123'456);
  for (; record < 2000; ++record) reads.read(record);
  CHECK(ahead() > 32);
  CHECK(reads.twice_count == 0);
}

TEST_CASE("coming() gives the records that are taken next") {
  const FlatTree tree(1000);
  Readahead readahead(tree, 1000, true, kWindow);
  CHECK(readahead.coming(kBatch, 100).empty());
  for (const uint64_t record : {993, 994, 995}) {
    readahead.note_read(record, readahead.file_of(record));
  }
  CHECK(readahead.coming(kBatch, 2).size() == 2);
  std::vector<uint64_t> coming;
  for (const auto& place : readahead.coming(kBatch, 100)) {
    if (const auto record = readahead.record_at(place)) coming.push_back(*record);
  }
  CHECK(coming == std::vector<uint64_t>{996, 997, 998, 999});  // the window is larger than that
  std::vector<uint64_t> taken;
  while (const auto next = readahead.take(kBatch)) taken.push_back(next->record);
  CHECK(taken == coming);
  CHECK(readahead.record_at({Readahead::Order::kListing, kRootIno}) == std::nullopt);
  CHECK(readahead.record_at({Readahead::Order::kListing, tree.file_of(7)}) == 7);
}

TEST_CASE("readahead asks for a batch of records at a time") {
  const FlatTree tree(100'000);
  Readahead readahead(tree, 100'000, true, kWindow);
  uint64_t record = 0;
  uint64_t ahead = 0;
  size_t batches = 0;
  for (; record < 20'000; ++record) {
    readahead.note_read(record, readahead.file_of(record));
    if (!readahead.wants(kBatch)) continue;
    ++batches;
    while (const auto next = readahead.take(kBatch)) ahead = next->record;
  }
  CHECK(ahead >= record + kWindow - kBatch);
  CHECK(batches <= 20'000 / kBatch + 10);
}
