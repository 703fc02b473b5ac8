// native/volume: the read path. Every way of reading gives the right bytes, and only bytes that
// were checked.

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <random>

#include "io/error.h"
#include "page_cache.h"
#include "record/ffrecord_shard.h"
#include "scratch.h"
#include "scrub/scrub.h"
#include "threads.h"
#include "volume/blocking_volume.h"
#include "volume/volume.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

// Sizes around a page, a request, a whole record and a chunk.
const std::vector<size_t> kSizes = {0,      1,      4095,    4096,    4097,          131071,
                                    131072, 131073, 1 << 20, 4 << 20, (4 << 20) + 1, 6'000'000};

const std::vector<Bytes>& plain_records() {
  static const std::vector<Bytes> records = [] {
    std::vector<Bytes> made;
    for (const size_t size : kSizes) {
      made.push_back(pattern(size, static_cast<uint32_t>(made.size())));
    }
    return made;
  }();
  return records;
}

struct PlainFile {
  PlainFile() {
    static const Bytes content = ffrecord(plain_records());
    path = folder.write("plain.ffr", content);
  }

  // Flips one byte of a record, behind the volume's back.
  void damage(size_t record, size_t at) const {
    flip_byte(path, FfrecordShard(path).extent(record).offset + at);
  }

  TemporaryFolder folder;
  const std::vector<Bytes>& records = plain_records();
  std::string path;
};

constexpr Ino ino_of(size_t record) { return record + 2; }

// Reads and waits; throws the error that the read ends with.
Bytes read(Volume& volume, Ino ino, uint64_t offset, size_t size) {
  return text(BlockingVolume(volume).read(ino, offset, size).bytes);
}

void check_random_reads(Volume& volume, const std::vector<Bytes>& records, uint32_t seed) {
  std::mt19937 random(seed);
  for (int i = 0; i < 120; ++i) {
    const size_t record = random() % records.size();
    const size_t offset = random() % (records[record].size() + 2);
    const size_t size = random() % 3 == 0 ? random() % 3'000'000 : random() % 200'000;
    const Bytes expected =
        offset < records[record].size() ? records[record].substr(offset, size) : Bytes();
    CHECK(read(volume, ino_of(record), offset, size) == expected);
  }
}

}  // namespace

TEST_CASE("reads of any part are right, cached and not, with a large and a small cache") {
  const PlainFile file;
  for (const size_t cache_bytes : {size_t{256} << 20, size_t{1} << 20, size_t{0}}) {
    for (const bool cached : {true, false}) {
      CAPTURE(cache_bytes);
      CAPTURE(cached);
      Volume volume({file.path}, {.cache_bytes = cache_bytes});
      if (!cached) drop_cached_pages(file.path);
      check_random_reads(volume, file.records, 1);
      CHECK(volume.counters().checksums_failed == 0);
      // Memory that is kept for the next request stays within the limit.
      CHECK(volume.counters().bytes_in_flight + volume.counters().bytes_kept <= cache_bytes);
    }
  }
}

TEST_CASE("a damaged record fails, cached or not; other records do not") {
  const PlainFile file;
  for (const size_t bad : {1UL, 5UL, 9UL, 10UL, 11UL}) {
    CAPTURE(bad);
    file.damage(bad, file.records[bad].size() / 2);
    for (const bool cached : {true, false}) {
      if (!cached) drop_cached_pages(file.path);
      Volume volume({file.path}, {});
      // A part far from the damage is refused as well: the checksum covers the whole.
      CHECK_THROWS_WITH_AS(read(volume, ino_of(bad), 0, 1),
                           doctest::Contains(("record " + std::to_string(bad)).c_str()),
                           ChecksumError);
      CHECK(read(volume, ino_of(6), 0, 1 << 20) == file.records[6]);
      CHECK(volume.counters().checksums_failed > 0);
    }
    Volume trusting({file.path}, {.check_data = false});
    CHECK(read(trusting, ino_of(bad), 0, 1).size() == 1);
    file.damage(bad, file.records[bad].size() / 2);  // the record is whole again
  }
}

TEST_CASE("bytes_memory counts the bytes that readers got, not the units that hold them") {
  const PlainFile file;
  const size_t large = 11;
  Volume volume({file.path}, {});
  REQUIRE(read(volume, ino_of(large), 0, 10) == file.records[large].substr(0, 10));
  for (size_t i = 1; i <= 10; ++i) {
    REQUIRE(read(volume, ino_of(large), i * 4096, 4096) ==
            file.records[large].substr(i * 4096, 4096));
  }
  CHECK(volume.counters().bytes_memory == 10 * 4096);
  CHECK(volume.counters().bytes_served == 10 + 10 * 4096);
}

TEST_CASE("a large record that changes after it was verified is caught") {
  const PlainFile file;
  const size_t large = 11;
  Volume volume({file.path}, {});
  REQUIRE(read(volume, ino_of(large), 0, 10) == file.records[large].substr(0, 10));
  file.damage(large, 3'500'000);
  CHECK_THROWS_WITH_AS(read(volume, ino_of(large), 3'600'000, 10),
                       doctest::Contains("changed since the record was verified"), ChecksumError);
  CHECK(read(volume, ino_of(large), 5'500'000, 10) == file.records[large].substr(5'500'000, 10));
}

TEST_CASE("a truncated file gives errors for the missing records, and bytes of the others") {
  const PlainFile file;
  Volume volume({file.path}, {});
  const uint64_t cut = volume.extent(ino_of(9)).offset + 1000;
  REQUIRE(truncate(file.path.c_str(), static_cast<off_t>(cut)) == 0);
  CHECK_THROWS_AS(read(volume, ino_of(9), 0, 10), StorageError);
  CHECK_THROWS_AS(read(volume, ino_of(11), 0, 10), StorageError);
  CHECK(read(volume, ino_of(8), 0, 10) == file.records[8].substr(0, 10));
}

TEST_CASE("many readers of one cold record share one fetch") {
  const PlainFile file;
  Volume volume({file.path}, {});
  const size_t record = 8;  // 1 MiB
  drop_cached_pages(file.path);
  int finished = 0;
  int at_once = 0;
  for (int i = 0; i < 20; ++i) {
    const auto now = volume.read(ino_of(record), static_cast<uint64_t>(i) * 1000, 500,
                                 [&, i](Slice slice, std::exception_ptr error) {
      CHECK_FALSE(error);
      CHECK(text(slice.bytes) == file.records[record].substr(static_cast<size_t>(i) * 1000, 500));
      ++finished;
    });
    if (now) ++at_once;
  }
  while (finished + at_once < 20) {
    volume.wait(10'000);
    volume.poll();
  }
  // The bytes came once, from storage or the page cache: dropped pages may be there again.
  const Counters& counters = volume.counters();
  CHECK(counters.bytes_storage + counters.bytes_page_cache == file.records[record].size());
}

TEST_CASE("threads share a volume") {
  const PlainFile file;
  Volume volume({file.path}, {.cache_bytes = size_t{8} << 20});
  drop_cached_pages(file.path);
  std::atomic<int> wrong{0};
  in_threads(4, [&](uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 100; ++i) {
      const size_t record = random() % file.records.size();
      const Bytes& bytes = file.records[record];
      const size_t offset = bytes.empty() ? 0 : random() % bytes.size();
      std::atomic<bool> ready{false};
      Bytes result;
      const auto now =
          volume.read(ino_of(record), offset, 100'000, [&](Slice slice, std::exception_ptr) {
        result = text(slice.bytes);
        ready = true;
      });
      if (now) {
        result = text(now->bytes);
        ready = true;
      }
      while (!ready) {
        volume.wait(5);  // another thread's poll() may have taken our event
        volume.poll();
      }
      if (result != bytes.substr(offset, 100'000)) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a batch gives its records in order, duplicates too, cached or cold, and one bad") {
  const PlainFile file;
  const ShardSet shards = open_ffrecord_shards({file.path});
  Counters counters;
  Fetcher reader(shards, counters);
  std::mt19937 random(3);
  for (const int round : {0, 1, 2}) {
    if (round == 1) drop_cached_pages(file.path);
    std::vector<Bytes> targets;
    std::vector<size_t> chosen;
    for (int i = 0; i < 200; ++i) {
      chosen.push_back(random() % 9);
      targets.emplace_back(file.records[chosen.back()].size(), '\0');
    }
    for (const size_t large : {9UL, 10UL, 11UL, 11UL}) {
      chosen.push_back(large);
      targets.emplace_back(file.records[large].size(), '\0');
    }
    if (round == 2) file.damage(4, 7);
    std::vector<BatchItem> items;
    for (size_t i = 0; i < chosen.size(); ++i) {
      items.push_back(
          {shards.extent(chosen[i]), std::as_writable_bytes(std::span(targets[i])), nullptr});
    }
    reader.read(items, true);
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (round == 2 && chosen[i] == 4) {
        CHECK(items[i].error);
      } else {
        CHECK_FALSE(items[i].error);
        CHECK(targets[i] == file.records[chosen[i]]);
      }
    }
  }
  reader.read({}, true);
}

TEST_CASE("a forked child reads batches and files with the volume it inherited") {
  const PlainFile file;
  Volume volume({file.path}, {});
  REQUIRE(read(volume, ino_of(7), 0, 10) == file.records[7].substr(0, 10));
  const pid_t child = fork_among_threads();
  if (child == 0) {
    drop_cached_pages(file.path);
    Bytes target(file.records[8].size(), '\0');
    std::vector<BatchItem> items;
    items.push_back({volume.extent(ino_of(8)), std::as_writable_bytes(std::span(target)), nullptr});
    volume.fetcher().read(items, true);
    const bool good = target == file.records[8] &&
                      read(volume, ino_of(11), 42, 7) == file.records[11].substr(42, 7);
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("verification names every bad record, small and large") {
  const PlainFile file;
  file.damage(3, 0);
  file.damage(11, 5'999'999);
  file.damage(7, 131'072);
  const ShardSet shards = open_ffrecord_shards({file.path});
  Counters counters;
  Fetcher fetcher(shards, counters);
  const auto bad = scrub_records(fetcher, 0, shards.count());
  REQUIRE(bad.size() == 3);
  CHECK(bad[0].first == 3);
  CHECK(bad[1].first == 7);
  CHECK(bad[2].first == 11);
  CHECK(bad[2].second.reason.find("checksum mismatch") != std::string::npos);
  CHECK(scrub_records(fetcher, 0, 3).empty());
  CHECK_THROWS_AS((void)scrub_records(fetcher, 1, shards.count()), RangeError);
  CHECK_THROWS_AS((void)scrub_records(fetcher, 1, UINT64_MAX), RangeError);
}

TEST_CASE("a volume of plain records has the expected attributes and paths") {
  const PlainFile file;
  Volume volume({file.path}, {.uid = 7, .gid = 8, .umask = 0027});
  const auto root = volume.attributes(volume.tree(), kRootIno);
  REQUIRE(root);
  CHECK(root->mode == (S_IFDIR | 0750U));
  CHECK(root->nlink == 2);
  const auto attributes = volume.attributes(volume.tree(), ino_of(4));
  REQUIRE(attributes);
  CHECK(attributes->mode == (S_IFREG | 0640U));
  CHECK(attributes->size == 4097);
  CHECK(attributes->uid == 7);
  CHECK(attributes->gid == 8);
  CHECK_FALSE(volume.attributes(volume.tree(), 0));
  CHECK_FALSE(volume.attributes(volume.tree(), ino_of(file.records.size())));
  CHECK_FALSE(volume.attributes(volume.tree(), UINT64_MAX));
  CHECK(BlockingVolume(volume).resolve("000000004") == ino_of(4));
  CHECK(BlockingVolume(volume).resolve("./000000004/") == ino_of(4));
  CHECK(BlockingVolume(volume).resolve("") == kRootIno);
  CHECK(BlockingVolume(volume).resolve("000000004/x") == 0);
  CHECK(BlockingVolume(volume).resolve("..") == 0);
  CHECK_THROWS_AS(read(volume, kRootIno, 0, 1), RangeError);
  CHECK_THROWS_AS(read(volume, 12345, 0, 1), RangeError);
}

TEST_CASE("the rest of a truncated index is not taken for a small file") {
  const TemporaryFolder folder;
  Bytes whole = ffrecord({"data", "piouhjgbr and a pickle"});
  const size_t begin = whole.size() - 22;
  for (const size_t left : {0UL, 1UL, 8UL}) {
    CAPTURE(left);
    const std::string path = folder.write("cut.ffr", whole.substr(0, begin + left));
    CHECK_THROWS_AS(Volume({path}, {}), ChecksumError);
  }
  // A longer stump shows that it is an index; its checksum shows that it is not whole.
  const std::string path = folder.write("cut.ffr", whole.substr(0, begin + 12));
  CHECK_THROWS_AS(Volume({path}, {}), ChecksumError);
}

TEST_CASE("a pack without records cannot be mounted") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(Volume({folder.write("a.ffr", ffrecord({}))}, {}),
                       doctest::Contains("holds no records"), FormatError);
}
