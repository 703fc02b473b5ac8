// native/io/source.h: the read path works with another kind of source. If bytes are late, far away,
// missing or wrong, a reader gets the right ones or an error, and holds up no other reader.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>

#include "examples.h"
#include "frames.h"
#include "io/read_queue.h"
#include "prefetch_rig.h"
#include "threads.h"
#include "trial_source.h"
#include "volume/blocking_volume.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::chrono_literals;

namespace {

constexpr Ino ino_of(size_t record) { return record + 2; }

// A pack of plain records that is not on this machine.
struct FarPack {
  explicit FarPack(std::vector<Bytes> content)
      : records(std::move(content)),
        trial(std::make_shared<Trial>(ffrecord(records))),
        volume({"far://bucket/plain.ffr"}, {.packs = {.open_source = open_trial(trial)}}) {}

  // Makes all bytes of the file from this record on far away.
  void put_far(size_t record) { trial->put_far(volume.extent(ino_of(record)).offset); }

  [[nodiscard]] Bytes read(size_t record) {
    return text(BlockingVolume(volume).read(ino_of(record), 0, SIZE_MAX / 2).bytes);
  }

  // Starts a read. A later answer is compared and counted. Return false if the bytes came at once.
  bool start(size_t record) {
    const auto now = volume.read(ino_of(record), 0, records[record].size(),
                                 [this, record](Slice slice, std::exception_ptr error) {
      if (error) {
        ++failed;
      } else if (text(slice.bytes) == records[record]) {
        ++right;
      } else {
        ++wrong;
      }
    });
    return !now;
  }
  [[nodiscard]] bool finish(int count) {
    return wait_until([&] {
      volume.wait(5);
      volume.poll();
      return right + wrong + failed >= count;
    });
  }

  const std::vector<Bytes> records;
  const std::shared_ptr<Trial> trial;
  Volume volume;
  int right = 0;
  int wrong = 0;
  int failed = 0;
};

}  // namespace

TEST_CASE("a volume over another kind of source gives the same bytes as over a file") {
  const std::vector<size_t> sizes = {0, 1, 4095, 4097, 131'073, 1 << 20, (4 << 20) + 1, 9'000'000};
  std::vector<Bytes> records;
  for (const size_t size : sizes) records.push_back(pattern(size, static_cast<uint32_t>(size)));
  FarPack pack(records);
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    const size_t record = random() % records.size();
    const size_t offset = random() % (records[record].size() + 1);
    const size_t size = 1 + random() % 200'000;
    const Slice slice = BlockingVolume(pack.volume).read(ino_of(record), offset, size);
    CHECK(text(slice.bytes) == records[record].substr(offset, size));
  }
}

TEST_CASE("a TFRecord file of another kind of source has the folders of its records") {
  const Bytes record = example(entry("a.jpg", bytes_list({pattern(200'000, 1)})) +
                               entry("b", int64_list({1, 2, 3})));
  const auto trial = std::make_shared<Trial>(framed({record, record, record}));
  Volume volume({"far://bucket/x.tfrecord"}, {.packs = {.open_source = open_trial(trial)}});
  BlockingVolume tree(volume);
  trial->put_far(0);
  std::atomic<bool> is_read = false;
  std::jthread server([&] {
    while (!is_read) {
      trial->arrive();
      std::this_thread::sleep_for(1ms);
    }
  });
  CHECK(text(tree.read(tree.resolve("000000001/a.jpg"), 0, 200'000).bytes) == pattern(200'000, 1));
  is_read = true;
  CHECK(trial->asked_in_all() > 0);
}

TEST_CASE("reads of remote bytes take no thread, and no other read waits for them") {
  FarPack pack(patterns(200, 4'000));
  CHECK(pack.read(0) == pack.records[0]);  // starts the threads that any read needs
  pack.put_far(100);
  const size_t threads_before = thread_count();
  for (size_t record = 100; record < 200; ++record) CHECK(pack.start(record));
  CHECK(pack.trial->asked_count() == 100);
  CHECK(pack.right + pack.failed == 0);
  CHECK(thread_count() <= threads_before + 1);

  for (size_t record = 0; record < 100; ++record) CHECK(pack.read(record) == pack.records[record]);
  CHECK(pack.right + pack.failed == 0);

  pack.trial->arrive();
  REQUIRE(pack.finish(100));
  CHECK(pack.right == 100);
}

TEST_CASE("many readers of one remote record request it once") {
  FarPack pack(patterns(3, 100'000));
  pack.put_far(1);
  for (int reader = 0; reader < 20; ++reader) CHECK(pack.start(1));
  CHECK(pack.trial->asked_in_all() == 1);
  pack.trial->arrive();
  REQUIRE(pack.finish(20));
  CHECK(pack.right == 20);
}

TEST_CASE("an error of a source reaches each reader, and the next read tries again") {
  FarPack pack(patterns(3, 100'000));
  pack.put_far(1);
  CHECK(pack.start(1));
  CHECK(pack.start(1));
  pack.trial->arrive(std::make_exception_ptr(
      StorageError(ETIMEDOUT, "far://bucket/plain.ffr", "the server does not answer")));
  REQUIRE(pack.finish(2));
  CHECK(pack.failed == 2);
  pack.put_far(2);
  CHECK(pack.read(1) == pack.records[1]);

  pack.trial->fail(1);
  CHECK_THROWS_WITH_AS((void)pack.read(0),
                       doctest::Contains("far://bucket/plain.ffr: cannot read at"), StorageError);
  CHECK(pack.read(0) == pack.records[0]);
}

TEST_CASE("a source that is shorter than it was, or has other bytes, gives errors") {
  FarPack pack(patterns(3, 100'000));
  const uint64_t last = pack.volume.extent(ino_of(2)).offset;
  pack.trial->change([&](Bytes& content) { content[last - 1] ^= 1; });
  pack.trial->cut(last + 50);
  CHECK(pack.read(0) == pack.records[0]);
  CHECK_THROWS_AS((void)pack.read(1), ChecksumError);
  CHECK_THROWS_WITH_AS((void)pack.read(2), doctest::Contains("ends at offset"), StorageError);
}

TEST_CASE("a volume can end before requested bytes arrive, and runs no callback then") {
  auto pack = std::make_unique<FarPack>(patterns(10, 4'000));
  const auto trial = pack->trial;
  pack->put_far(0);
  for (size_t record = 0; record < 10; ++record) CHECK(pack->start(record));
  pack.reset();
  CHECK(trial->asked_count() > 0);
  trial->arrive();
}

TEST_CASE("bytes that arrive while a volume ends do no harm") {
  for (int i = 0; i < 100; ++i) {
    auto pack = std::make_unique<FarPack>(patterns(10, 4'000));
    const auto trial = pack->trial;
    pack->put_far(0);
    for (size_t record = 0; record < 10; ++record) CHECK(pack->start(record));
    const std::jthread server([trial] { trial->arrive(); });
    pack.reset();
  }
}

TEST_CASE("hinted remote records are requested in order and held, and delay no reader") {
  const std::vector<Bytes> records = patterns(100, 10'000);
  const auto trial = std::make_shared<Trial>(ffrecord(records));
  Rig rig(records, {.open = open_trial(trial)});
  trial->put_far(rig.shards.extent(50).offset);
  std::vector<uint64_t> order;
  for (uint64_t record = 99; record >= 50; --record) order.push_back(record);
  const auto list = rig.prefetcher->open_list();
  CHECK(rig.prefetcher->add(list, rig.hints(order)) > 0);
  REQUIRE(wait_until([&] { return trial->asked_count() > 0; }));

  for (uint64_t record = 0; record < 50; ++record) rig.read(record);
  CHECK(rig.counters.prefetch_fetched == 0);
  std::vector<uint64_t> offsets;
  for (const uint64_t record : order) offsets.push_back(rig.shards.extent(record).offset);
  CHECK(trial->needed() == offsets);

  REQUIRE(wait_until([&] {
    trial->arrive();
    return rig.counters.prefetch_fetched == 50;
  }));
  for (const uint64_t record : order) CHECK(rig.read(record));
  CHECK(rig.wrong == 0);
}

TEST_CASE("remote records are requested ahead only up to a limit, however many hints there are") {
  constexpr size_t kInFlight = 64;
  constexpr size_t kAhead = 100;
  const std::vector<Bytes> records = patterns(400, 1'000);
  const auto trial = std::make_shared<Trial>(ffrecord(records));
  Rig rig(records, {.options = {.far_records = kAhead}, .open = open_trial(trial)});
  trial->put_far(rig.shards.extent(0).offset);
  for (uint64_t first : {0, 1}) {
    std::vector<uint64_t> order;
    for (uint64_t record = first; record < 400; record += 2) order.push_back(record);
    CHECK(rig.prefetcher->add(rig.prefetcher->open_list(), rig.hints(order)) > 0);
  }
  REQUIRE(wait_until([&] { return trial->asked_count() > 0 && others_sleep(); }));
  CHECK(trial->needed().size() <= kInFlight + kAhead);
  CHECK(wait_until([&] {
    trial->arrive();
    return rig.counters.prefetch_fetched == records.size();
  }));
}

TEST_CASE("many slow reads at once take about as long as one") {
  FarPack pack(patterns(20, 4'000));
  pack.trial->delay(200ms);
  const auto begin = Clock::now();
  for (size_t record = 0; record < 20; ++record) CHECK(pack.start(record));
  REQUIRE(pack.finish(20));
  CHECK(pack.right == 20);
  CHECK(Clock::now() - begin < 20 * 200ms / 2);
}
