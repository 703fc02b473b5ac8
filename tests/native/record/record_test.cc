// native/record, the reading side: sound headers, bad headers, extents.

#include <doctest/doctest.h>

#include <filesystem>

#include "golden.h"
#include "io/error.h"
#include "record/ffrecord_shard.h"
#include "scratch.h"
#include "shard/shard_set.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

const std::vector<Bytes> kRecords = {"first", "", "third record", pattern(5000, 1)};

template <typename T> void poke(Bytes& file, size_t at, T value) {
  std::memcpy(file.data() + at, &value, sizeof value);
}

// Makes the header's own checksum fit the tables as they are now.
void seal(Bytes& file, size_t count) {
  poke(file, 0, crc32(view(file).subspan(4, 8 + 12 * count)));
}

size_t offset_at(size_t record) { return 12 + 4 * kRecords.size() + 8 * record; }

void check_refused(const Bytes& content, const char* reason) {
  const TemporaryFolder folder;
  const std::string path = folder.write("bad.ffr", content);
  CAPTURE(reason);
  CHECK_THROWS_WITH_AS(FfrecordShard shard(path), doctest::Contains(reason), FormatError);
  CHECK_THROWS_WITH_AS(FfrecordShard shard(path), doctest::Contains(path.c_str()), FormatError);
}

}  // namespace

TEST_CASE("a sound file gives its extents") {
  const TemporaryFolder folder;
  const FfrecordShard shard(folder.write("a.ffr", ffrecord(kRecords)));
  REQUIRE(shard.count() == kRecords.size());
  CHECK(shard.metadata_verified());
  uint64_t offset = 12 + 12 * kRecords.size();
  for (size_t i = 0; i < kRecords.size(); ++i) {
    const Extent extent = shard.extent(i);
    CHECK(extent.offset == offset);
    CHECK(extent.size == kRecords[i].size());
    CHECK(extent.crc32 == crc32(view(kRecords[i])));
    offset += extent.size;
  }
  CHECK(shard.offsets().back() == offset);
}

TEST_CASE("a file without records opens") {
  const TemporaryFolder folder;
  CHECK(FfrecordShard(folder.write("a.ffr", ffrecord({}))).count() == 0);
}

TEST_CASE("a header without a checksum opens, unverified") {
  Bytes file = ffrecord(kRecords);
  poke(file, 0, uint32_t{0});
  const TemporaryFolder folder;
  const FfrecordShard shard(folder.write("old.ffr", file));
  CHECK_FALSE(shard.metadata_verified());
  CHECK(shard.count() == kRecords.size());
}

TEST_CASE("a file that is cut off anywhere in its header is refused") {
  const Bytes file = ffrecord(kRecords);
  check_refused("", "is empty");
  for (size_t size = 1; size < 12 + 12 * kRecords.size(); ++size) {
    check_refused(file.substr(0, size), "truncated");
  }
}

TEST_CASE("a file that is cut off before its last record is refused") {
  Bytes file = ffrecord(kRecords);
  file.resize(file.size() - kRecords.back().size() - 1);
  check_refused(file, "beyond the end of the file");
}

TEST_CASE("an impossible number of records is refused") {
  const auto check = [](int64_t count, const char* reason) {
    Bytes file = ffrecord(kRecords);
    poke(file, 4, count);
    check_refused(file, reason);
  };
  for (const int64_t count : {int64_t{-1}, INT64_MIN, INT64_MAX, INT64_MAX / 12}) {
    check(count, "not an FFRecord or TFRecord file");
  }
  for (const int64_t count : {int64_t{1} << 40, int64_t{100'000}}) {
    check(count, "truncated, or not an FFRecord file");
  }
  Bytes none = ffrecord(kRecords);
  poke(none, 4, int64_t{0});
  poke(none, 0, crc32(view(none).subspan(4, 8)));
  check_refused(none, "says 0 records");
}

TEST_CASE("any changed byte of the header is seen") {
  const Bytes file = ffrecord(kRecords);
  for (size_t at = 0; at < 12 + 12 * kRecords.size(); ++at) {
    Bytes changed = file;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    const TemporaryFolder folder;
    CAPTURE(at);
    CHECK_THROWS_AS(FfrecordShard(folder.write("bad.ffr", changed)), FormatError);
  }
}

TEST_CASE("wrong offsets under a right checksum are refused") {
  const auto with_offset = [](size_t record, int64_t offset) {
    Bytes file = ffrecord(kRecords);
    poke(file, offset_at(record), offset);
    seal(file, kRecords.size());
    return file;
  };
  check_refused(with_offset(2, 60), "before record 1");
  check_refused(with_offset(0, 11), "inside the header");
  check_refused(with_offset(0, 0), "inside the header");
  check_refused(with_offset(3, 1 << 20), "beyond the end");
  check_refused(with_offset(3, -1), "beyond the end");
  check_refused(with_offset(1, INT64_MIN), "beyond the end");
}

TEST_CASE("several files are one index space") {
  const TemporaryFolder folder;
  const ShardSet set = open_ffrecord_shards({folder.write("a.ffr", ffrecord({"0", "1"})),
                                             folder.write("b.ffr", ffrecord({})),
                                             folder.write("c.ffr", ffrecord({"22", "333", ""}))});
  REQUIRE(set.count() == 5);
  CHECK(set.extent(1).shard == 0);
  CHECK(set.extent(2).shard == 2);
  CHECK(set.extent(2).record == 0);
  CHECK(set.extent(3).size == 3);
  CHECK_THROWS_WITH_AS((void)set.extent(5), doctest::Contains("there are 5"), RangeError);
  CHECK_THROWS_AS((void)open_ffrecord_shards({}), FormatError);
}

TEST_CASE("golden files by the original writer open") {
  const std::filesystem::path folder = golden_folder();
  CHECK(FfrecordShard(folder / "packed.ffr").metadata_verified());
  CHECK(FfrecordShard(folder / "plain.ffr").count() == 100);
  CHECK(FfrecordShard(folder / "sharded" / "PART_00007.ffr").metadata_verified());
}
