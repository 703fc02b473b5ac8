// The read path over far objects: bytes that a cache has spoiled are fetched again, once; bytes
// that are wrong at their origin are an error, whichever way they are read.

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "frames.h"
#include "index_file.h"
#include "io/error.h"
#include "prefetch_rig.h"
#include "remote/remote_opener.h"
#include "scrub/scrub.h"
#include "test_fetcher.h"
#include "tfrecord/framing.h"
#include "tfrecord/tfrecord_scan.h"
#include "tfrecord/tfrecord_shard.h"
#include "volume/blocking_volume.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::chrono_literals;
using remote::Ask;

namespace {

const std::string kUrl = "s3://bucket/a.ffr";
constexpr Ino ino_of(size_t record) { return record + 2; }

std::vector<Bytes> some_records() {
  std::vector<Bytes> records;
  for (uint32_t i = 0; i < 20; ++i) records.push_back(pattern(10'000 + i, i));
  records.push_back(pattern(5 << 20, 77));  // read in chunks
  return records;
}

struct FarPack {
  FarPack() : records(some_records()), object(std::make_shared<TestObject>(ffrecord(records))) {
    fetcher.add(kUrl, object);
    remote::set_opener(std::make_shared<remote::RemoteOpener>(fetcher.start(), 10s));
    volume = std::make_unique<Volume>(std::vector{kUrl}, VolumeOptions{});
  }
  ~FarPack() {
    volume.reset();
    remote::set_opener(nullptr);
  }

  [[nodiscard]] Bytes read(size_t record) {
    return text(BlockingVolume(*volume).read(ino_of(record), 0, SIZE_MAX / 2).bytes);
  }
  [[nodiscard]] uint64_t offset(size_t record) const {
    return volume->extent(ino_of(record)).offset;
  }
  void spoil_origin(size_t record) {
    Bytes content = object->content();
    content.replace(offset(record) + 100, 5, "WRONG");
    object->change(content);
  }

  TestFetcher fetcher;
  const std::vector<Bytes> records;
  const std::shared_ptr<TestObject> object;
  std::unique_ptr<Volume> volume;
};

std::vector<Bytes> all_records(TfrecordScan& scan) {
  std::vector<Bytes> records;
  for (auto found = scan.next(); !found.empty(); found = scan.next()) {
    const size_t before = records.size();
    std::vector<std::span<std::byte>> targets;
    for (const TfrecordScan::Record& one : found) records.emplace_back(one.size, '?');
    for (size_t i = 0; i < found.size(); ++i) {
      Bytes& record = records[before + i];
      if (found[i].bytes != nullptr) record = text({found[i].bytes, record.size()});
      targets.push_back(std::as_writable_bytes(std::span(record)));
    }
    if (found[0].bytes == nullptr) records.resize(before + scan.read(targets));
  }
  return records;
}

}  // namespace

TEST_CASE("records that are damaged in the cache are fetched again, and are right") {
  FarPack pack;
  for (const size_t record : {size_t{3}, size_t{20}}) {
    CHECK(pack.read(record) == pack.records[record]);
    pack.object->damage(pack.offset(record) + 100);
    CHECK(pack.read(record) == pack.records[record]);
  }
  CHECK(pack.fetcher.count(Ask::kAgain) > 0);
  // Whole batches, with some records in the page cache; then loads ahead of need.
  for (const size_t record : {size_t{5}, size_t{6}, size_t{20}}) {
    pack.object->damage(pack.offset(record) + 9);
  }
  std::vector<Bytes> found;
  std::vector<BatchItem> items;
  for (const Bytes& record : pack.records) found.emplace_back(record.size(), '?');
  for (size_t i = 0; i < found.size(); ++i) {
    items.push_back(
        {pack.volume->extent(ino_of(i)), std::as_writable_bytes(std::span(found[i])), nullptr});
  }
  pack.volume->fetcher().read(items, true);
  for (const BatchItem& item : items) CHECK(item.error == nullptr);
  CHECK(found == pack.records);
  pack.object->damage(pack.offset(7) + 9);
  pack.object->damage(pack.offset(20) + 9);
  std::atomic<size_t> done{0};
  pack.volume->fetcher().load(items, true, [&](size_t) { ++done; });
  CHECK(done == items.size());
  for (const BatchItem& item : items) CHECK(item.error == nullptr);
  CHECK(found == pack.records);
}

TEST_CASE("a record that is damaged at its origin gives an error, after one more try") {
  FarPack pack;
  for (const size_t record : {size_t{4}, size_t{20}}) {
    pack.spoil_origin(record);
    pack.object->fill(pack.offset(record) / kTestBlock, 2);
    const size_t before = pack.fetcher.count(Ask::kAgain);
    CHECK_THROWS_AS((void)pack.read(record), ChecksumError);
    CHECK(pack.fetcher.count(Ask::kAgain) == before + 1);
  }
  const BadRecords bad = scrub_records(pack.volume->fetcher(), 0, pack.records.size());
  REQUIRE(bad.size() == 2);
  CHECK(bad[0].first == 4);
  CHECK(bad[1].first == 20);
  pack.object->damage(pack.offset(9) + 9);
  CHECK(scrub_records(pack.volume->fetcher(), 0, pack.records.size()).size() == 2);
}

TEST_CASE("headers and indexes that are damaged in the cache are fetched again") {
  FarPack pack;
  pack.object->damage(20);
  const Volume again({kUrl}, {});
  CHECK(again.shards().count() == pack.records.size());

  const auto [indexed, index_begin, trailer] =
      indexed_pack(some_records(), flat_sections(many(some_records().size())));
  const auto object = std::make_shared<TestObject>(indexed);
  pack.fetcher.add("s3://bucket/indexed.ffr", object);
  object->fill(0, (indexed.size() + kTestBlock - 1) / kTestBlock);
  std::vector<uint64_t> places{0, 4, 12, 30, 200};
  // Up to the magic: without that it would be no index, and the pickle would be read.
  const uint64_t end = indexed.size() - sizeof(IndexTrailer) + offsetof(IndexTrailer, magic);
  for (uint64_t place = index_begin; place + 5 < end; place += 77) {
    places.push_back(place);
  }
  for (const uint64_t place : places) {
    object->damage(place);
    Volume volume({"s3://bucket/indexed.ffr"}, {});
    CHECK(volume.warnings().empty());
    CHECK(volume.tree().lookup(1, "nothing") == 0);
    CHECK(volume.extent(volume.tree().lookup(1, "n1000007")).record == 7);
  }
}

TEST_CASE("remote TFRecord files are opened like local ones") {
  FarPack pack;
  Bytes file;
  for (const Bytes& record : pack.records) file += frame(record);
  pack.fetcher.add("s3://bucket/a.tfrecord", std::make_shared<TestObject>(file));
  const ShardSet shards = open_tfrecord_shards({"s3://bucket/a.tfrecord"});
  CHECK(shards.count() == pack.records.size());
  CHECK(pack.fetcher.count(Ask::kOpen) == 2);
}

TEST_CASE("TFRecord files that are damaged in the cache are fetched again") {
  FarPack pack;
  const auto object = std::make_shared<TestObject>(framed(pack.records));
  pack.fetcher.add("s3://bucket/a.tfrecord", object);
  object->fill(0, (object->content().size() + kTestBlock - 1) / kTestBlock);
  const auto spoil = [&](uint64_t place) {  // damages each record, or its frame
    uint64_t begin = 0;
    for (const Bytes& record : pack.records) {
      object->damage(begin + place);
      begin += record.size() + kFramingSize;
    }
  };
  spoil(0);
  CHECK(open_tfrecord_shards({"s3://bucket/a.tfrecord"}).count() == pack.records.size());
  for (const uint64_t place : {0, 5, 2000}) {
    CAPTURE(place);
    spoil(place);
    TfrecordScan scan(remote::open_source("s3://bucket/a.tfrecord"), true);
    CHECK(all_records(scan) == pack.records);
  }
}
