// native/volume: the numbers that a volume reports: its counters, how long requests took, and which
// failures are due for a line in the log.

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <stdexcept>

#include "fetch/demand_reader.h"
#include "io/error.h"
#include "page_cache.h"
#include "record/ffrecord_shard.h"
#include "scratch.h"
#include "stats/counter_page.h"
#include "stats/counters.h"
#include "stats/request_times.h"
#include "threads.h"
#include "volume/failure_log.h"
#include "volume/file_reads.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

constexpr int kThreads = 8;

FileDescriptor shared_memory(size_t size) {
  FileDescriptor file(memfd_create("counters_test", MFD_CLOEXEC));
  REQUIRE(ftruncate(file.get(), static_cast<off_t>(size)) == 0);
  return file;
}

template <typename Number> Number number_at(const CounterPage& page, size_t position) {
  Number value{};
  std::memcpy(&value, page.bytes().data() + position, sizeof value);
  return value;
}

}  // namespace

TEST_CASE("a damaged page of a process that has ended is refused") {
  const auto is_refused = [](size_t position, uint64_t value) {
    const FileDescriptor memory = shared_memory(CounterPage::kSize);
    {
      CHECK(CounterPage(memory.get()).row("first", 2).size() == 2);
    }
    REQUIRE(pwrite(memory.get(), &value, sizeof value, static_cast<off_t>(position)) ==
            sizeof value);
    CounterPage page(memory.get());
    CHECK_THROWS_AS(static_cast<void>(page.row("second")), std::length_error);
  };
  is_refused(8, uint64_t{1} << 40);  // the size in use is too large
  is_refused(8, CounterPage::kSize + 8);
  const size_t count = 16 + CounterPage::kNameSize;
  is_refused(count, 7000);  // the row would end beyond the page
  is_refused(count, uint64_t{1} << 61);
  is_refused(count, ~uint64_t{4});  // it overflows: the next row would begin here again
}

TEST_CASE("a row is found again by its name, with its values") {
  CounterPage page;
  Counter& one = page.row("one");
  const auto many = page.row("many", 100);
  CHECK(one == 0);
  CHECK(std::ranges::all_of(many, [](const Counter& value) { return value == 0; }));
  one += 7;
  many.back() += 9;
  CHECK(&page.row("one") == &one);
  CHECK(page.row("one") == 7);
  CHECK(page.row("many", 100).data() == many.data());
  CHECK(page.row("many", 100).back() == 9);
  CHECK(page.row("man") == 0);  // a prefix is another name
  CHECK(page.row("many2") == 0);
}

TEST_CASE("the page is laid out as its header says") {
  CounterPage page;
  page.row("a") = 0x1122334455667788;
  page.row("bc", 2)[1] = 5;
  CHECK(text(page.bytes().first(8)) == "ffrfscnt");
  CHECK(number_at<uint64_t>(page, 8) == 16 + 48 + 56);
  CHECK(text(page.bytes().subspan(16, 32)) == Bytes("a") + Bytes(31, '\0'));
  CHECK(number_at<uint64_t>(page, 48) == 1);
  CHECK(number_at<uint64_t>(page, 56) == 0x1122334455667788);
  CHECK(text(page.bytes().subspan(64, 32)) == Bytes("bc") + Bytes(30, '\0'));
  CHECK(number_at<uint64_t>(page, 96) == 2);
  CHECK(number_at<uint64_t>(page, 112) == 5);
}

TEST_CASE("a row with too long a name, or another count, is refused and changes nothing") {
  CounterPage page;
  const std::string longest(CounterPage::kNameSize - 1, 'n');
  page.row(longest) = 1;
  page.row("three", 3)[0] = 1;
  const Bytes before = text(page.bytes());
  CHECK_THROWS_AS((void)page.row(longest + "n"), std::length_error);
  CHECK_THROWS_AS((void)page.row("three", 2), std::length_error);
  CHECK_THROWS_AS((void)page.row("three", 4), std::length_error);
  CHECK(text(page.bytes()) == before);
}

TEST_CASE("a full page refuses new rows, whatever their count, and keeps its rows") {
  CounterPage page;
  constexpr size_t row_header = 40;
  const size_t left = CounterPage::kSize - 16;
  const size_t fits = (left - 2 * row_header) / 8 - 1;  // leaves room for one row of one value
  page.row("big", fits).back() = 3;
  for (const size_t count : {size_t{2}, fits, size_t{1} << 61, SIZE_MAX, SIZE_MAX / 8}) {
    CAPTURE(count);
    CHECK_THROWS_AS((void)page.row("more", count), std::length_error);
  }
  page.row("last") = 4;
  CHECK(number_at<uint64_t>(page, 8) == CounterPage::kSize);
  CHECK_THROWS_AS((void)page.row("none", 0), std::length_error);
  CHECK(page.row("big", fits).back() == 3);
  CHECK(page.row("last") == 4);
}

TEST_CASE("two pages over one file share their rows, also those that are made later") {
  const FileDescriptor file = shared_memory(CounterPage::kSize);
  CounterPage first(file.get());
  first.row("reads") = 1;
  {
    CounterPage second(file.get());
    CHECK(second.row("reads") == 1);
    second.row("reads") += 4;
    second.row("made by the second", 2)[1] = 6;
  }
  CHECK(first.row("reads") == 5);
  CHECK(first.row("made by the second", 2)[1] == 6);
  const CounterPage alone;
  CHECK(number_at<uint64_t>(alone, 8) == 16);
}

TEST_CASE("a file that is too small, or does not exist, is refused") {
  CHECK_THROWS_AS(CounterPage(shared_memory(CounterPage::kSize - 1).get()), StorageError);
  CHECK_THROWS_AS(CounterPage(1 << 20), StorageError);
}

TEST_CASE("threads make rows and count in them at once") {
  constexpr int kRows = 50;
  constexpr int kRounds = 200;
  CounterPage page;
  in_threads(kThreads, [&](uint32_t thread) {
    std::mt19937 random(thread);
    for (int round = 0; round < kRounds; ++round) {
      for (int row = 0; row < kRows; ++row) ++page.row("row " + std::to_string(row));
      (void)page.row("row " + std::to_string(random() % kRows)).load();
    }
  });
  for (int row = 0; row < kRows; ++row) {
    CHECK(page.row("row " + std::to_string(row)) == kThreads * kRounds);
  }
  CHECK(number_at<uint64_t>(page, 8) == 16 + kRows * 48);  // no row was made twice
}

TEST_CASE("buckets are in order, without gaps, at most a quarter wide") {
  CHECK(RequestTimes::bucket(0) == 0);
  CHECK(RequestTimes::bucket(255) == 0);
  CHECK(RequestTimes::bucket(256) == 1);
  CHECK(RequestTimes::bucket(4 * 256 - 1) == 3);
  CHECK(RequestTimes::bucket(4 * 256) == 4);
  size_t last = 0;
  uint64_t begin_units = 0;  // where the bucket `last` begins
  for (uint64_t units = 1; units < 1 << 16; ++units) {
    const size_t bucket = RequestTimes::bucket(units << 8);
    REQUIRE(bucket >= last);
    REQUIRE(bucket <= last + 1);
    REQUIRE(RequestTimes::bucket((units << 8) + 255) == bucket);
    if (bucket == last) {
      // The times in a bucket are at most a quarter longer than its begin.
      REQUIRE(4 * (units - begin_units) <= begin_units);
    } else {
      last = bucket;
      begin_units = units;
    }
  }
}

TEST_CASE("the last bucket takes all longer times") {
  constexpr size_t kLast = RequestTimes::kBucketCount - 1;
  constexpr uint64_t kBeginNs = (uint64_t{7} << 25) << 8;  // 60 s
  CHECK(RequestTimes::bucket(kBeginNs - 1) == kLast - 1);
  CHECK(RequestTimes::bucket(kBeginNs) == kLast);
  CHECK(RequestTimes::bucket(kBeginNs * 2) == kLast);
  CHECK(RequestTimes::bucket(UINT64_MAX) == kLast);
}

TEST_CASE("each kind of request has a name and a row, and threads add to it at once") {
  CounterPage page;
  RequestTimes times(page);
  in_threads(kThreads, [&](uint32_t thread) {
    for (uint64_t i = 0; i < 1000; ++i) {
      times.add(RequestKind::kRead, i << 8);
      if (thread == 0) times.add(RequestKind::kRefuse, UINT64_MAX);
    }
  });
  uint64_t reads = 0;
  for (const Counter& bucket : page.row("request.read", RequestTimes::kBucketCount)) {
    reads += bucket;
  }
  CHECK(reads == kThreads * 1000);
  CHECK(page.row("request.read", RequestTimes::kBucketCount)[2] == kThreads);
  CHECK(page.row("request.refuse", RequestTimes::kBucketCount).back() == 1000);
  CHECK(page.row("request_ns.read") == kThreads * (999 * 1000 / 2 << 8));
  for (size_t kind = 0; kind < kRequestKindNames.size(); ++kind) {
    CHECK(RequestTimes::kind_of(kRequestKindNames[kind]) == static_cast<RequestKind>(kind));
  }
  CHECK(static_cast<size_t>(RequestKind::kRefuse) == kRequestKindNames.size() - 1);
  CHECK_THROWS_AS((void)RequestTimes::kind_of("flush"), std::invalid_argument);
}

TEST_CASE("a failure is logged once a minute for each file") {
  using namespace std::chrono_literals;
  CounterPage page;
  FailureLog log(page);
  const auto begin = FailureLog::Clock::now();
  CHECK(log.note(1, begin));
  CHECK(log.note(2, begin + 1s));
  CHECK_FALSE(log.note(1, begin));
  CHECK_FALSE(log.note(1, begin + FailureLog::kRepeatAfter - 1ns));
  CHECK(log.note(1, begin + FailureLog::kRepeatAfter));
  CHECK_FALSE(log.note(2, begin + FailureLog::kRepeatAfter));  // the other file does not matter
  CHECK_FALSE(log.note(1, begin + 2 * FailureLog::kRepeatAfter - 1ns));  // the minute begins again
  CHECK(log.note(1, begin + 2 * FailureLog::kRepeatAfter));
  // All failures are counted, logged or not.
  CHECK(page.row("read_failures").load() == 8);
  const auto counts = page.row("failures_by_inode", 2 * FailureLog::kFilesMax);
  CHECK((counts[0] == 1 && counts[1] == 6 && counts[2] == 2 && counts[3] == 2 && counts[4] == 0));
}

TEST_CASE("the failure log is bounded: the file logged longest ago is forgotten") {
  CounterPage page;
  FailureLog log(page);
  const auto now = FailureLog::Clock::now();
  for (Ino ino = 1; ino <= FailureLog::kFilesMax; ++ino) REQUIRE(log.note(ino, now));
  CHECK_FALSE(log.note(1, now));
  CHECK(log.note(FailureLog::kFilesMax + 1, now));
  CHECK(log.note(1, now));  // it was forgotten; now it takes the place of 2 only
  CHECK_FALSE(log.note(3, now));
  CHECK_FALSE(log.note(FailureLog::kFilesMax, now));
  CHECK(log.note(2, now));
  // A file takes the place in the table of the one that is forgotten for it.
  const auto counts = page.row("failures_by_inode", 2 * FailureLog::kFilesMax);
  CHECK((counts[0] == FailureLog::kFilesMax + 1 && counts[1] == 1));
  CHECK((counts[2] == 1 && counts[3] == 1 && counts[4] == 2 && counts[5] == 1));
}

TEST_CASE("failure counts of files go on from those of the worker before") {
  CounterPage page;
  const auto now = FailureLog::Clock::now();
  {
    FailureLog log(page);
    for (const Ino ino : {7, 7, 7, 8}) (void)log.note(ino, now);
  }
  const auto counts = page.row("failures_by_inode", 2 * FailureLog::kFilesMax);
  counts[4] = 8;  // hostile: file 8 is there twice, and a file that never failed
  counts[5] = counts[6] = counts[7] = 99;
  FailureLog log(page);
  CHECK(log.note(9, now));
  CHECK(log.note(7, FailureLog::Clock::now()));  // each file is logged again
  CHECK_FALSE(log.note(7, now));
  CHECK((counts[0] == 7 && counts[1] == 5 && counts[2] == 8 && counts[3] == 1));
  CHECK((counts[4] == 9 && counts[5] == 1));
  CHECK(page.row("read_failures").load() == 7);
}

TEST_CASE("of many threads that meet one bad file exactly one logs it") {
  CounterPage page;
  FailureLog log(page);
  constexpr Ino kFiles = 2000;  // more than the log remembers
  std::vector<std::atomic<int>> lines(kFiles);
  std::atomic<int> of_one{0};
  in_threads(kThreads, [&] {
    for (int i = 0; i < 1000; ++i) {
      if (log.note(kFiles + 1)) ++of_one;
    }
  });
  CHECK(of_one == 1);
  in_threads(kThreads, [&] {
    for (Ino ino = 0; ino < kFiles; ++ino) {
      if (log.note(ino)) ++lines[ino];
    }
  });
  CHECK(std::ranges::all_of(lines, [](const auto& count) { return count >= 1; }));
}

namespace {

// Records on disk, none of them in the page cache.
struct ColdRecords {
  explicit ColdRecords(const std::vector<Bytes>& given)
      : records(given),
        path(folder.write("cold.ffr", ffrecord(records))),
        shards(open_ffrecord_shards({path})) {
    drop_cached_pages(path);
  }

  [[nodiscard]] UnitPlan plan(size_t record) const {
    return {.extent = shards.extent(record), .size = records[record].size()};
  }

  TemporaryFolder folder;
  std::vector<Bytes> records;
  std::string path;
  ShardSet shards;
};

std::vector<Bytes> equal_records(size_t count, size_t size) {
  std::vector<Bytes> records;
  for (size_t i = 0; i < count; ++i) records.push_back(pattern(size, static_cast<uint32_t>(i)));
  return records;
}

void poll_until(DemandReader& reader, const std::atomic<int>& finished, int count) {
  while (finished < count) {
    reader.wait(50);
    reader.poll();
  }
}

}  // namespace

TEST_CASE("queue depth and bytes in flight count the fetches, and return to 0") {
  const ColdRecords file(equal_records(40, 100'000));
  Counters counters;
  Fetcher fetcher(file.shards, counters, 1 << 20);  // half of it may be in flight
  DemandReader reader(fetcher);
  const size_t each = fetcher.memory_for(file.plan(0));
  const size_t most = (size_t{1} << 19) / each;
  std::atomic<int> finished{0};
  const auto count = [&finished](const UnitPtr&, const std::exception_ptr&) { ++finished; };
  for (size_t record = 0; record < 40; ++record) {
    reader.fetch(file.plan(record), count);
    reader.fetch(file.plan(record), count);  // joins the first fetch
    CHECK(counters.queue_depth == record + 1);
    CHECK(counters.bytes_in_flight == std::min<size_t>(record + 1, most) * each);
  }
  poll_until(reader, finished, 80);
  CHECK(counters.queue_depth == 0);
  CHECK(counters.bytes_in_flight == 0);
  CHECK(counters.bytes_kept == 0);
}

TEST_CASE("fetches that fail leave nothing in flight") {
  const ColdRecords file(equal_records(8, 100'000));
  Counters counters;
  Fetcher fetcher(file.shards, counters, 1 << 20);
  DemandReader reader(fetcher);
  UnitPlan damaged = file.plan(1);
  damaged.extent.crc32 ^= 1;
  const auto cut = static_cast<off_t>(file.plan(4).file_offset());
  REQUIRE(truncate(file.path.c_str(), cut) == 0);
  std::atomic<int> finished{0};
  std::atomic<int> failed{0};
  const auto count = [&](const UnitPtr& unit, const std::exception_ptr& error) {
    CHECK((unit == nullptr) == (error != nullptr));
    if (error) ++failed;
    ++finished;
  };
  for (const size_t record : {0UL, 4UL, 5UL, 7UL}) reader.fetch(file.plan(record), count);
  reader.fetch(damaged, count);
  poll_until(reader, finished, 5);
  CHECK(failed == 4);
  CHECK(counters.queue_depth == 0);
  CHECK(counters.bytes_in_flight == 0);
}

TEST_CASE("bytes kept count the units that were served in part, until all is served") {
  const ColdRecords file(equal_records(3, 100'000));
  Counters counters;
  Fetcher fetcher(file.shards, counters, 1 << 20);  // a quarter of it may be kept
  DemandReader reader(fetcher);
  const auto served = [&](size_t record, size_t count) {
    const UnitPlan plan = file.plan(record);
    UnitPtr unit = reader.find(plan, plan.size);
    for (std::atomic<int> finished{0}; !unit;) {
      reader.fetch(plan, [&](const UnitPtr& fetched, const std::exception_ptr&) {
        unit = fetched;
        ++finished;
      });
      poll_until(reader, finished, 1);
    }
    reader.served(plan.key(), plan.size, unit, count);
    return unit->buffer.capacity();
  };
  const size_t kept = served(0, 60'000);
  CHECK(kept >= 100'000);
  CHECK(counters.bytes_kept == kept);
  CHECK(served(1, 1) == kept);
  CHECK(counters.bytes_kept == 2 * kept);
  served(2, 1);  // there is no room for three, so the first is dropped
  CHECK(counters.bytes_kept == 2 * kept);
  served(1, 99'999);  // the rest of it
  CHECK(counters.bytes_kept == kept);
  served(2, 99'999);
  CHECK(counters.bytes_kept == 0);
}

TEST_CASE("gauges of a process stay until the next one begins, and are reset then") {
  const ColdRecords file(equal_records(1, 1000));
  const FileDescriptor memory = shared_memory(CounterPage::kSize);
  Counters present(memory.get());
  present.queue_depth = present.bytes_in_flight = present.bytes_kept = present.uring_queues = 12;
  present.bytes_storage = 34;
  Counters counters(memory.get());
  Fetcher fetcher(file.shards, counters, 1 << 20);
  const DemandReader reader(fetcher);
  CHECK(present.queue_depth == 12);
  CHECK(present.bytes_in_flight == 12);
  CHECK(present.bytes_kept == 12);
  CHECK(present.uring_queues == 12);
  counters.begin();
  CHECK(counters.queue_depth == 0);
  CHECK(counters.bytes_in_flight == 0);
  CHECK(counters.bytes_kept == 0);
  CHECK(counters.bytes_storage == 34);  // totals stay
}

TEST_CASE("gauges return to 0 after threads have read everything in parts") {
  // Whole records and one in chunks; the limit is so small that reads wait for each other.
  const ColdRecords file({pattern(10'000, 1), pattern(110'000, 2), pattern(700'000, 3),
                          pattern(3 << 20, 4), pattern(5 << 20, 5)});
  Counters counters;
  FileReads reads(file.shards, counters, 2 << 20, true);
  std::atomic<int> wrong{0};
  in_threads(kThreads, [&](uint32_t thread) {
    std::mt19937 random(thread);
    for (int i = 0; i < 40; ++i) {
      const size_t record = random() % file.records.size();
      const Bytes& bytes = file.records[record];
      const size_t offset = random() % bytes.size();
      const size_t size = std::min<size_t>(bytes.size() - offset, 1 + random() % 300'000);
      if (random() % 4 == 0) drop_cached_pages(file.path);
      std::atomic<bool> ready{false};
      Bytes result;
      const auto now = reads.read(file.shards.extent(record), offset, size,
                                  [&](const Slice& slice, const std::exception_ptr&) {
        result = text(slice.bytes);
        ready = true;
      });
      if (now) result = text(now->bytes);
      while (!now && !ready) {
        reads.wait(5);  // another thread's poll() may have taken our event
        reads.poll();
      }
      if (result != bytes.substr(offset, size)) ++wrong;
    }
  });
  CHECK(wrong == 0);
  CHECK(counters.queue_depth == 0);
  CHECK(counters.bytes_in_flight == 0);
  CHECK(counters.reads == kThreads * 40);
  CHECK(counters.bytes_kept <= (2 << 20) / 4);
}
