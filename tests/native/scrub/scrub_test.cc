// Verification: every bad record is found, in the page cache or on storage, with any number of
// threads; and the chunk checksums that an index has for large records.

#include "scrub/scrub.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>

#include "frames.h"
#include "io/error.h"
#include "page_cache.h"
#include "record/ffrecord_shard.h"
#include "scratch.h"
#include "tfrecord/tfrecord_shard.h"
#include "trial_source.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Records of sizes at which windows, runs and batches end, and many small ones.
std::vector<Bytes> some_records() {
  std::vector<Bytes> records;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097},
                            size_t{131'071}, 256 * 1024 - size_t{1}, size_t{256} * 1024,
                            256 * 1024 + size_t{1}, kMiB, kMiB + 1, 5 * kMiB + 3, 17 * kMiB}) {
    records.push_back(pattern(size, static_cast<uint32_t>(records.size())));
  }
  for (uint32_t i = 0; i < 3000; ++i) records.push_back(pattern(i % 700, i));
  return records;
}

struct Pack {
  TemporaryFolder folder;
  std::vector<Bytes> records = some_records();
  std::string path = folder.write("x.ffr", ffrecord(records));

  // Changes a byte of `record`, which must not be empty.
  void damage(size_t record, size_t byte) const {
    flip_byte(path, FfrecordShard(path).extent(record).offset + byte);
  }

  [[nodiscard]] BadRecords verify(size_t jobs = 0, const ExpectedChunks& chunks = nullptr) const {
    const ShardSet shards = open_ffrecord_shards({path});
    Counters counters;
    Fetcher fetcher(shards, counters);
    return scrub_records(fetcher, 0, shards.count(), jobs, chunks);
  }
};

std::vector<uint64_t> numbers(const BadRecords& bad) {
  std::vector<uint64_t> records;
  for (const auto& [record, reason] : bad) records.push_back(record);
  return records;
}

std::vector<uint32_t> chunks_of(const Bytes& record) {
  std::vector<uint32_t> chunks;
  for (size_t at = 0; at < record.size(); at += kMiB) {
    chunks.push_back(crc32c(view(record).subspan(at, std::min(kMiB, record.size() - at))));
  }
  return chunks;
}

}  // namespace

TEST_CASE("every bad record is found, in order, by any number of threads") {
  const Pack pack;
  CHECK(pack.verify().empty());
  const std::vector<uint64_t> spoilt{1, 6, 9, 11, 12, 300, 301, 3012};
  for (const uint64_t record : spoilt) {
    pack.damage(record, pack.records[record].size() - 1);
  }
  for (const size_t jobs : {1, 2, 7, 1000}) {
    const auto bad = pack.verify(jobs);
    CHECK(numbers(bad) == spoilt);
    CHECK(bad[0].second.kind == "ChecksumError");
    CHECK(bad[0].second.path == pack.path);
    CHECK(bad[0].second.record == 1);
    CHECK(bad[0].second.reason.starts_with("record 1 (offset "));
    CHECK(bad[0].second.reason.find("checksum mismatch") != std::string::npos);
  }
}

TEST_CASE("bad records are found although the page cache does not hold them") {
  const Pack pack;
  const std::vector<uint64_t> spoilt{4, 11, 12, 2000};
  for (const uint64_t record : spoilt) pack.damage(record, 0);
  drop_cached_pages(pack.path);
  CHECK(numbers(pack.verify(2)) == spoilt);
  // And again with some of it in memory.
  drop_cached_pages(pack.path);
  std::ifstream(pack.path, std::ios::binary).ignore(3 * kMiB);
  CHECK(numbers(pack.verify(2)) == spoilt);
}

TEST_CASE("a shortened file has bad records behind its end, and good ones before") {
  const Pack pack;
  const ShardSet shards = open_ffrecord_shards({pack.path});
  Counters counters;
  Fetcher fetcher(shards, counters);
  std::filesystem::resize_file(pack.path, shards.extent(2000).offset);
  const auto bad = scrub_records(fetcher, 0, shards.count());
  REQUIRE_FALSE(bad.empty());
  std::vector<uint64_t> gone;
  for (uint64_t record = 2000; record < shards.count(); ++record) {
    if (shards.extent(record).size > 0) gone.push_back(record);
  }
  CHECK(numbers(bad) == gone);
  CHECK(bad[0].second.reason.find("shorter than when opened") != std::string::npos);
}

TEST_CASE("a lack of descriptors, memory or threads is no record's fault") {
  const auto trial = std::make_shared<Trial>(ffrecord({pattern(700, 1), pattern(5 * kMiB, 2)}));
  const ShardSet shards = open_ffrecord_shards({"x.ffr"}, IndexUse::kNone, open_trial(trial));
  Counters counters;
  Fetcher fetcher(shards, counters);
  for (const int lack : {EMFILE, ENFILE, ENOMEM, EAGAIN}) {
    trial->fail(1, lack);
    CHECK_THROWS_AS((void)scrub_records(fetcher, 0, shards.count(), 1), StorageError);
  }
  trial->fail(1, EIO);
  CHECK(scrub_records(fetcher, 0, shards.count(), 1).size() == 1);
}

TEST_CASE("large records are compared with the chunk checksums of the index") {
  const Pack pack;
  const auto right = [&](uint64_t record) { return chunks_of(pack.records[record]); };
  const auto wrong_at = [&](uint64_t bad_record, auto spoil) {
    return [&, bad_record, spoil](uint64_t record) {
      auto chunks = chunks_of(pack.records[record]);
      if (record == bad_record) spoil(chunks);
      return chunks;
    };
  };
  for (const bool cached : {true, false}) {
    if (!cached) drop_cached_pages(pack.path);
    CHECK(pack.verify(2, right).empty());
    for (const uint64_t record : {10, 11, 12}) {
      if (!cached) drop_cached_pages(pack.path);
      const auto flipped = pack.verify(2, wrong_at(record, [](auto& c) { c[1] ^= 1; }));
      REQUIRE(numbers(flipped) == std::vector<uint64_t>{record});
      CHECK(flipped[0].second.reason.find("wrong checksum of its bytes at 1048576") !=
            std::string::npos);
      CHECK(numbers(pack.verify(2, wrong_at(record, [](auto& c) { c.pop_back(); }))) ==
            std::vector<uint64_t>{record});
      CHECK(numbers(pack.verify(2, wrong_at(record, [](auto& c) { c.push_back(0); }))) ==
            std::vector<uint64_t>{record});
    }
  }
}

TEST_CASE("a scrub of TFRecord finds damage in records and in the checksums behind them") {
  const TemporaryFolder folder;
  const std::string path = folder.write("x.tfrecord", framed(some_records()));
  const ShardSet shards = open_tfrecord_shards({path});
  Counters counters;
  Fetcher fetcher(shards, counters);
  CHECK(scrub_records(fetcher, 0, shards.count()).empty());
  overwrite(path, shards.extent(2).offset, "\x7f\x7f");
  const Extent last = shards.extent(shards.count() - 1);
  overwrite(path, last.offset + last.size, Bytes(4, '\0'));
  CHECK(numbers(scrub_records(fetcher, 0, shards.count(), 3)) ==
        std::vector<uint64_t>{2, shards.count() - 1});
}

TEST_CASE("only the given range is scrubbed, and none beyond the end") {
  const Pack pack;
  pack.damage(5, 0);
  const ShardSet shards = open_ffrecord_shards({pack.path});
  Counters counters;
  Fetcher fetcher(shards, counters);
  CHECK(scrub_records(fetcher, 6, 100).empty());
  CHECK(counters.checksums_verified.load() == 100);
  CHECK(scrub_records(fetcher, 5, 1).size() == 1);
  CHECK(scrub_records(fetcher, 5, 0).empty());
  CHECK_THROWS_AS((void)scrub_records(fetcher, 1, shards.count()), RangeError);
  CHECK_THROWS_AS((void)scrub_records(fetcher, 1, UINT64_MAX), RangeError);
}
