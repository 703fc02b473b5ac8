// native/tfrecord, the files: frames, shards, sidecars; and the code that opens and scans them.

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <random>
#include <thread>

#include "fetch/fetcher.h"
#include "frames.h"
#include "golden.h"
#include "io/error.h"
#include "open/open_shards.h"
#include "page_cache.h"
#include "record/ffrecord_shard.h"
#include "scratch.h"
#include "scrub/scrub.h"
#include "tfrecord/framing.h"
#include "tfrecord/sidecar.h"
#include "tfrecord/tfrecord_scan.h"
#include "tfrecord/tfrecord_shard.h"
#include "threads.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

TfrecordShard open_shard(const std::string& path, bool use_sidecar = true) {
  return TfrecordShard(open_local_file(path), use_sidecar);
}

const std::vector<Bytes> kSmall = {"first", "", "third record", "z"};

std::vector<Bytes> records_of(const std::vector<size_t>& sizes) {
  std::vector<Bytes> records;
  for (const size_t size : sizes) {
    records.push_back(pattern(size, static_cast<uint32_t>(records.size())));
  }
  return records;
}

// Sizes around a page, a window of the walk and of the scan, and a group; shuffled.
std::vector<Bytes> mixed_records() {
  std::vector<size_t> sizes = {0,       1,      4079,   4080,   4081,   65519,     65520,
                               65521,   16368,  16369,  262128, 262129, (2 << 20), (2 << 20) + 1,
                               5 << 20, 110000, 110000, 110000, 7,      7};
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    sizes.push_back(random() % (random() % 8 == 0 ? 200'000 : 3'000));
  }
  std::shuffle(sizes.begin(), sizes.end(), random);
  return records_of(sizes);
}

std::vector<uint64_t> offsets_of(const std::vector<Bytes>& records) {
  std::vector<uint64_t> offsets{0};
  for (const Bytes& record : records) offsets.push_back(offsets.back() + record.size() + 16);
  return offsets;
}

std::vector<uint64_t> offsets_of(const TfrecordShard& shard) {
  return {shard.offsets().begin(), shard.offsets().end()};
}

// Opens the shards that a path names, as mounting does (open/open_packs.h).
ShardSet open_shards(const std::string& path) {
  const RecordFiles files = find_record_files({path});
  return files.is_tfrecord ? open_tfrecord_shards(files.paths) : open_ffrecord_shards(files.paths);
}

// Reads all records in one batch. One that is refused comes back empty, and sets `failed`.
std::vector<Bytes> read_all(const ShardSet& shards, bool& failed) {
  std::vector<Bytes> records(shards.count());
  std::vector<BatchItem> items;
  for (uint64_t i = 0; i < shards.count(); ++i) {
    const Extent extent = shards.extent(i);
    records[i].resize(extent.size);
    items.push_back({extent, std::as_writable_bytes(std::span(records[i])), nullptr});
  }
  Counters counters;
  Fetcher(shards, counters).read(items, true);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].error) continue;
    failed = true;
    records[i].clear();
  }
  return records;
}

std::vector<Bytes> read_all(const ShardSet& shards) {
  bool failed = false;
  auto records = read_all(shards, failed);
  CHECK_FALSE(failed);
  return records;
}

auto verify(const ShardSet& shards) {
  Counters counters;
  Fetcher fetcher(shards, counters);
  return scrub_records(fetcher, 0, shards.count());
}

std::shared_ptr<const Source> source(const std::string& path) { return open_local_file(path); }

// Return the next records of a scan, taken as the binding takes them.
std::vector<Bytes> next(TfrecordScan& scan) {
  const auto found = scan.next();
  std::vector<Bytes> records;
  std::vector<std::span<std::byte>> targets;
  for (const auto& record : found) {
    if (record.bytes != nullptr) {
      records.push_back(text({record.bytes, static_cast<size_t>(record.size)}));
    } else {
      records.emplace_back(record.size, '\0');
    }
  }
  if (found.empty() || found[0].bytes != nullptr) return records;
  for (Bytes& record : records) targets.push_back(std::as_writable_bytes(std::span(record)));
  records.resize(scan.read(targets));
  return records;
}

// Return the records, and "!" with the text of each error, until the end or a final error.
std::vector<Bytes> scan_all(const std::string& path, bool check = true) {
  TfrecordScan scan(source(path), check);
  std::vector<Bytes> found;
  while (true) {
    try {
      const auto records = next(scan);
      if (records.empty()) return found;
      found.insert(found.end(), records.begin(), records.end());
    } catch (const ChecksumError& error) {
      found.push_back(Bytes("!") + error.what());
    } catch (const FormatError& error) {
      found.push_back(Bytes("!") + error.what());
      CHECK_THROWS_WITH_AS((void)next(scan), error.what(), FormatError);  // the error is final
      return found;
    }
  }
}

void set_mtime(const std::string& path, int64_t seconds) {
  const std::array<timespec, 2> times{{{seconds, 0}, {seconds, 0}}};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times.data(), 0) == 0);
}

Bytes sidecar_of(const std::vector<Bytes>& records) { return sidecar_text(offsets_of(records)); }

}  // namespace

TEST_CASE("the walk finds every frame, of any size") {
  const auto records = mixed_records();
  const TemporaryFolder folder;
  const TfrecordShard shard = open_shard(folder.write("a.tfrecord", framed(records)));
  CHECK(offsets_of(shard) == offsets_of(records));
  REQUIRE(shard.count() == records.size());
  CHECK_FALSE(shard.used_sidecar());
  uint64_t total = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    const Extent extent = shard.extent(i);
    CHECK(extent.record == i);
    CHECK(extent.offset == offsets_of(records)[i] + 12);
    CHECK(extent.size == records[i].size());
    CHECK(extent.checksum == Checksum::kMaskedCrc32c);
    total += extent.size;
  }
  CHECK(shard.byte_count() == total);
}

TEST_CASE("an empty file has no records") {
  const TemporaryFolder folder;
  const TfrecordShard shard = open_shard(folder.write("a.tfrecord", ""));
  CHECK(shard.count() == 0);
  CHECK(shard.byte_count() == 0);
  CHECK(scan_all(folder / "a.tfrecord").empty());
}

TEST_CASE("a file that is cut off anywhere has fewer records, or an error that says where") {
  const Bytes file = framed(kSmall);
  const auto offsets = offsets_of(kSmall);
  const TemporaryFolder folder;
  for (size_t size = 1; size < file.size(); ++size) {
    CAPTURE(size);
    const std::string path = folder.write("cut.tfrecord", file.substr(0, size));
    const auto after = std::upper_bound(offsets.begin(), offsets.end(), size);
    const auto record = static_cast<size_t>(after - offsets.begin()) - 1;
    if (offsets[record] == size) {
      CHECK(open_shard(path).count() == record);
      continue;
    }
    const size_t have = size - offsets[record];
    const Bytes expected = path + ": record " + std::to_string(record) + " (offset " +
                           std::to_string(offsets[record]) + "): the file ends after " +
                           std::to_string(have) + " of " +
                           (have < 12 ? Bytes("12 bytes of its header")
                                      : std::to_string(kSmall[record].size() + 16) + " bytes") +
                           "; it was cut off or is still being written";
    CHECK_THROWS_WITH_AS(open_shard(path), expected.c_str(), TruncatedError);
    CHECK(scan_all(path).back() == "!" + expected);
    CHECK(scan_all(path).size() == record + 1);
  }
}

TEST_CASE("every flipped byte is found, in each way of reading") {
  const Bytes file = framed(kSmall);
  const auto offsets = offsets_of(kSmall);
  const TemporaryFolder folder;
  for (size_t at = 0; at < file.size(); ++at) {
    CAPTURE(at);
    Bytes changed = file;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    const std::string path = folder.write("bad.tfrecord", changed);
    const auto after = std::upper_bound(offsets.begin(), offsets.end(), at);
    const auto record = static_cast<size_t>(after - offsets.begin()) - 1;
    const Bytes place = "record " + std::to_string(record) + " (offset ";
    if (at < offsets[record] + 12) {
      CHECK_THROWS_WITH_AS(open_shard(path), doctest::Contains(place.c_str()), FormatError);
    } else {
      std::vector<std::unique_ptr<const Shard>> one;
      one.push_back(std::make_unique<TfrecordShard>(open_local_file(path)));
      const ShardSet shards(std::move(one));
      for (const bool cached : {true, false}) {
        if (!cached) drop_cached_pages(path);
        bool failed = false;
        auto expected = kSmall;
        expected[record].clear();
        CHECK(read_all(shards, failed) == expected);
        CHECK(failed);
      }
      const auto bad = verify(shards);
      REQUIRE(bad.size() == 1);
      CHECK(bad[0].first == record);
      CHECK(bad[0].second.reason.find(place) != Bytes::npos);
    }
    const auto found = scan_all(path);
    REQUIRE(found.size() > record);
    CHECK(std::equal(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(record),
                     kSmall.begin()));
    CHECK(found[record].starts_with("!" + path + ": " + place));
  }
}

TEST_CASE("a length beyond the end of the file is refused") {
  const TemporaryFolder folder;
  for (const uint64_t length : {uint64_t{17}, uint64_t{1} << 20, uint64_t{1} << 40,
                                uint64_t{1} << 63, UINT64_MAX - 15, UINT64_MAX}) {
    CAPTURE(length);
    const std::string path =
        folder.write("lie.tfrecord", frame("first") + frame_header(length) + Bytes(20, 'x'));
    CHECK_THROWS_WITH_AS(open_shard(path), doctest::Contains("record 1 (offset 21)"), FormatError);
    CHECK(scan_all(path)[0] == "first");
    CHECK(scan_all(path, false)[1].starts_with("!"));
  }
}

TEST_CASE("the error for a compressed file says that it is compressed") {
  const TemporaryFolder folder;
  const std::string gzip =
      folder.write("a.gz", Bytes("\x1f\x8b\x08\0\0\0\0\0\0\3", 10) + pattern(90, 1));
  const std::string zlib = folder.write("a.tfrecord", Bytes("\x78\x9c", 2) + pattern(90, 1));
  CHECK_THROWS_WITH_AS((void)open_shards(gzip), doctest::Contains("is compressed (GZIP)"),
                       FormatError);
  CHECK_THROWS_WITH_AS((void)open_shards(zlib), doctest::Contains("is compressed (ZLIB)"),
                       FormatError);
  // A length may look like the magic of a gzip stream: 0x088b1f = 559,903 bytes.
  const Bytes record = pattern(0x088b1f, 1);
  CHECK(read_all(open_shards(folder.write("b", frame(record)))) == std::vector{record});
}

TEST_CASE("the content of a file decides its format, or else its name") {
  const TemporaryFolder folder;
  CHECK(read_all(open_shards(folder.write("plain", framed(kSmall)))) == kSmall);
  CHECK(read_all(open_shards(folder.write("plain.ffr", ffrecord(kSmall)))) == kSmall);
  CHECK_THROWS_WITH_AS((void)open_shards(folder.write("x.tfrecord-00001-of-00002", "short")),
                       doctest::Contains("of 12 bytes of its header"), TruncatedError);
  CHECK_THROWS_WITH_AS((void)open_shards(folder.write("short", "short")),
                       doctest::Contains("not an FFRecord file"), FormatError);
  CHECK(open_shards(folder.write("x.tfrecords", "")).count() == 0);
  CHECK_THROWS_AS((void)open_shards(folder / "nothing"), StorageError);
  CHECK_THROWS_AS((void)open_shards(folder / "nothing.tfrecord"), StorageError);
}

TEST_CASE("a folder gives its shards in byte order, and no other files") {
  const TemporaryFolder folder;
  std::vector<Bytes> expected;
  for (int i = 0; i < 30; ++i) {
    const auto number = std::to_string(100 + i);
    expected.push_back("shard " + number);
    (void)folder.write("x.tfrecord-00" + number, frame(expected.back()));
  }
  for (const char* name :
       {"x.tfrecord-00100.idx", "x.tfrecord-00100.tfindex", ".x.tfrecord", "notes.txt"}) {
    (void)folder.write(name, "no shard");
  }
  std::filesystem::create_directory(folder / "y.tfrecord");
  CHECK(read_all(open_shards(folder / "")) == expected);
  CHECK(files_in(folder / "").tfrecords.size() == 30);

  // The first of several bad files is named.
  (void)folder.write("x.tfrecord-00111", "bad");
  (void)folder.write("x.tfrecord-00105", "bad");
  CHECK_THROWS_WITH_AS((void)open_shards(folder / ""), doctest::Contains("x.tfrecord-00105"),
                       FormatError);
  CHECK_THROWS_WITH_AS((void)open_shards(folder / "y.tfrecord"),
                       doctest::Contains("TFRecord files (*.tfrecord*)"), FormatError);
}

TEST_CASE("a sidecar is used under each of its names, and only if that is allowed") {
  const auto records = mixed_records();
  for (const char* name : {"a.tfrecord.idx", "a.tfrecord.tfindex", "a.idx", "a.tfindex"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const std::string path = folder.write("a.tfrecord", framed(records));
    (void)folder.write(name, sidecar_of(records));
    const TfrecordShard shard = open_shard(path);
    CHECK(shard.used_sidecar());
    CHECK(offsets_of(shard) == offsets_of(records));
    CHECK_FALSE(open_shard(path, false).used_sidecar());
  }
  CHECK(sidecar_paths("/d.x/.hidden").size() == 2);
  CHECK(sidecar_paths("a.b.tfrecord").back() == "a.b.tfindex");
}

TEST_CASE("a sidecar that is not sound is not used, and the file is walked") {
  const Bytes good = sidecar_of(kSmall);
  REQUIRE(good == "0 21\n21 16\n37 28\n65 17\n");
  const std::vector<Bytes> bad = {
      "",
      "\n",
      "0",
      "0 21",
      "0 21\n",
      good.substr(0, good.size() - 1),
      good.substr(0, good.size() - 8),
      good + "\n",
      good + "82 16\n",
      good + good,
      "5 16\n" + good,
      " " + good,
      "-" + good,
      "0 +21\n21 16\n37 28\n65 17\n",
      "0  21\n21 16\n37 28\n65 17\n",
      "0 21 \n21 16\n37 28\n65 17\n",
      "0 21\r\n21 16\r\n37 28\r\n65 17\r\n",
      "0\n21\n37\n65\n",
      "0 82\n",
      "0 37\n37 28\n65 17\n",
      "0 20\n20 17\n37 28\n65 17\n",
      "0 15\n15 67\n",
      "0 0\n0 82\n",
      "0 18446744073709551615\n",
      "0 18446744073709551616\n",
      "0 21\n21 18446744073709551600\n5 77\n",
      Bytes(100'000, '0') + "1\n",
      Bytes(good).replace(2, 1, 1, '\0'),
      pattern(150, 3),
      framed(kSmall),
  };
  for (const Bytes& content : bad) {
    CAPTURE(content.substr(0, 80));
    const TemporaryFolder folder;
    const std::string path = folder.write("a.tfrecord", framed(kSmall));
    (void)folder.write("a.tfrecord.idx", content);
    const TfrecordShard shard = open_shard(path);
    CHECK_FALSE(shard.used_sidecar());
    CHECK(offsets_of(shard) == offsets_of(kSmall));
  }
}

TEST_CASE("a sidecar larger than any index of the file is not read") {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.tfrecord", framed(kSmall));
  // Four terabytes, all of them a hole.
  (void)folder.write("a.tfrecord.idx", "");
  REQUIRE(truncate((folder / "a.tfrecord.idx").c_str(), off_t{1} << 42) == 0);
  CHECK_FALSE(open_shard(path).used_sidecar());
  // Names that are no regular files block nobody.
  std::filesystem::remove(folder / "a.tfrecord.idx");
  REQUIRE(mkfifo((folder / "a.tfrecord.idx").c_str(), 0600) == 0);
  std::filesystem::create_directory(folder / "a.tfrecord.tfindex");
  CHECK_FALSE(open_shard(path).used_sidecar());
  // Then the next name is tried.
  (void)folder.write("a.idx", sidecar_of(kSmall));
  CHECK(open_shard(path).used_sidecar());
}

TEST_CASE("an older sidecar is stale, one of the same time is not") {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.tfrecord", framed(kSmall));
  const std::string sidecar = folder.write("a.tfrecord.idx", sidecar_of(kSmall));
  set_mtime(path, 1'000'000);
  for (const int64_t seconds : {999'999, 1'000'000, 1'000'001}) {
    set_mtime(sidecar, seconds);
    CHECK(open_shard(path).used_sidecar() == (seconds >= 1'000'000));
  }
}

TEST_CASE("a sidecar of another file of that size gives no wrong records") {
  auto others = records_of(std::vector<size_t>(1000, 50));
  const auto records = others;
  const TemporaryFolder folder;
  const std::string path = folder.write("a.tfrecord", framed(records));
  for (const size_t shifted : {0UL, 998UL}) {  // the first and the last record are checked
    auto sizes = std::vector<size_t>(1000, 50);
    sizes[shifted] = 40;
    sizes[shifted + 1] = 60;
    (void)folder.write("a.tfrecord.idx", sidecar_of(records_of(sizes)));
    CHECK_FALSE(open_shard(path).used_sidecar());
  }
  // A sidecar made to pass these checks: the checksum of the data reveals it.
  auto sizes = std::vector<size_t>(1000, 50);
  sizes[1] = 40;
  sizes[2] = 60;
  (void)folder.write("a.tfrecord.idx", sidecar_of(records_of(sizes)));
  const ShardSet shards = open_shards(path);
  bool failed = false;
  const auto found = read_all(shards, failed);
  CHECK(failed);
  CHECK(found[1].empty());
  CHECK(found[2].empty());
  CHECK(found[3] == records[3]);
}

TEST_CASE("large records are read, scanned, verified; their damage is found") {
  const auto records = records_of({100, 5 << 20, 17 << 20, 0, 2 << 20});
  const TemporaryFolder folder;
  const std::string path = folder.write("large.tfrecord", framed(records));
  const ShardSet shards = open_shards(path);
  for (const bool cached : {true, false}) {
    if (!cached) drop_cached_pages(path);
    CHECK(read_all(shards) == records);
    if (!cached) drop_cached_pages(path);
    CHECK(verify(shards).empty());
    if (!cached) drop_cached_pages(path);
    CHECK(scan_all(path) == records);
  }
  const auto offsets = offsets_of(records);
  for (const size_t record : {1UL, 2UL, 4UL}) {
    for (const uint64_t at : {offsets[record] + 12, offsets[record + 1] - 5,
                              offsets[record + 1] - 4, offsets[record + 1] - 1}) {
      CAPTURE(record);
      CAPTURE(at);
      flip_byte(path, at);
      const auto bad = verify(open_shards(path));
      REQUIRE(bad.size() == 1);
      CHECK(bad[0].first == record);
      CHECK(scan_all(path)[record].starts_with("!"));
      flip_byte(path, at);  // the file is whole again
    }
  }
}

TEST_CASE("the scan gives records of any size, cached and cold, with and without checks") {
  const auto records = mixed_records();
  const TemporaryFolder folder;
  const std::string path = folder.write("a.tfrecord", framed(records));
  for (const bool check : {true, false}) {
    CHECK(scan_all(path, check) == records);
    drop_cached_pages(path);
    CHECK(scan_all(path, check) == records);
  }
}

TEST_CASE("the scan steps over damaged records, and hands out all others") {
  const auto records = mixed_records();
  Bytes file = framed(records);
  const auto offsets = offsets_of(records);
  std::mt19937 random(2);
  std::vector<bool> bad(records.size());
  for (int i = 0; i < 60; ++i) {
    const size_t record = random() % records.size();
    if (bad[record]) continue;
    bad[record] = true;
    file[offsets[record + 1] - 4] = static_cast<char>(file[offsets[record + 1] - 4] ^ 1);
  }
  const TemporaryFolder folder;
  const std::string path = folder.write("a.tfrecord", file);
  const auto found = scan_all(path);
  REQUIRE(found.size() == records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    CAPTURE(i);
    if (bad[i]) {
      CHECK(found[i].starts_with("!" + path + ": record " + std::to_string(i) + " (offset " +
                                 std::to_string(offsets[i]) + "): checksum mismatch"));
    } else {
      CHECK(found[i] == records[i]);
    }
  }
  CHECK(scan_all(path, false) == records);
}

TEST_CASE("the scan by two threads finds damage anywhere in a group") {
  const auto records = records_of(std::vector<size_t>(60, 100'000));
  const auto offsets = offsets_of(records);
  Bytes file = framed(records);
  std::vector<size_t> bad;
  for (size_t i = 0; i < records.size(); ++i) {
    if (i % 7 != 0 && i % 7 != 4 && i < 50) continue;
    bad.push_back(i);
    file[offsets[i] + 5000] = static_cast<char>(file[offsets[i] + 5000] ^ 1);
  }
  const TemporaryFolder folder;
  const auto found = scan_all(folder.write("a.tfrecord", file));
  REQUIRE(found.size() == records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    CAPTURE(i);
    const bool is_bad = std::find(bad.begin(), bad.end(), i) != bad.end();
    CHECK((is_bad ? found[i].starts_with("!") : found[i] == records[i]));
  }
  file[offsets[45]] = static_cast<char>(file[offsets[45]] ^ 1);  // a damaged length ends the scan
  const auto begin = scan_all(folder.write("a.tfrecord", file));
  REQUIRE(begin.size() == 46);
  CHECK(std::equal(begin.begin(), begin.begin() + 45, found.begin()));
  CHECK(begin[45].find("record 45 (offset") != Bytes::npos);
}

TEST_CASE("a scan goes on after a pause and a fork") {
  const auto records = records_of(std::vector<size_t>(200, 100'000));
  const TemporaryFolder folder;
  TfrecordScan scan(source(folder.write("a.tfrecord", framed(records))), true);
  size_t count = 0;
  const auto is_next_good = [&] {
    const auto found = next(scan);
    const auto expected = records.begin() + static_cast<ptrdiff_t>(count);
    count += found.size();
    return !found.empty() && std::equal(found.begin(), found.end(), expected);
  };
  for (int i = 0; i < 6; ++i) {
    CHECK(is_next_good());
    if (i == 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const pid_t child = fork_among_threads();
  if (child == 0) {
    while (count < records.size() && is_next_good()) {
    }
    _exit(count == records.size() ? 0 : 1);
  }
  while (count < records.size()) REQUIRE(is_next_good());
  CHECK(next(scan).empty());
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a file that shrinks during a scan gives an error") {
  const auto records = records_of(std::vector<size_t>(100, 100'000));
  const TemporaryFolder folder;
  const std::string path = folder.write("a.tfrecord", framed(records));
  TfrecordScan scan(source(path), true);
  CHECK(next(scan)[0] == records[0]);
  REQUIRE(truncate(path.c_str(), 5'000'000) == 0);
  CHECK_THROWS_AS(while (!next(scan).empty()){}, StorageError);
}

TEST_CASE("several threads scan and open files") {
  const auto records = records_of(std::vector<size_t>(100, 50'000));
  const TemporaryFolder folder;
  for (int i = 0; i < 12; ++i) {
    (void)folder.write("x.tfrecord-" + std::to_string(10 + i), framed(records));
  }
  std::atomic<int> wrong{0};
  in_threads(3, [&](uint32_t i) {
    if (open_shards(folder / "").count() != 12 * records.size()) ++wrong;
    if (scan_all(folder / ("x.tfrecord-" + std::to_string(10 + i))) != records) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("golden files by TensorFlow open") {
  const std::filesystem::path folder = golden_folder() / "tf";
  for (const auto& [name, count] :
       {std::pair{"examples.tfrecord", 50U}, {"sequences.tfrecord", 10U}, {"raw.tfrecord", 4U}}) {
    const ShardSet shards = open_shards(folder / name);
    CHECK(shards.count() == count);
    CHECK(framed(read_all(shards)) == framed(scan_all(folder / name)));
    CHECK(verify(shards).empty());
  }
  CHECK_THROWS_WITH_AS((void)open_shards(folder / "examples.gzip.tfrecord"),
                       doctest::Contains("is compressed (GZIP)"), FormatError);
  CHECK_THROWS_WITH_AS((void)open_shards(folder / "examples.zlib.tfrecord"),
                       doctest::Contains("is compressed (ZLIB)"), FormatError);
}
