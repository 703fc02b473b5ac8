// native/volume over TFRecord: a file is overwritten by another sound one, whose frames have the
// same sizes but whose records are laid out differently. The names and positions that a record's
// folder has shown must not be filled with the bytes of the other record.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "example_folders.h"
#include "frames.h"
#include "io/error.h"
#include "page_cache.h"
#include "volume/blocking_volume.h"
#include "volume/volume.h"
#include "whole_files.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

constexpr size_t kCount = 6;
const std::vector<Bytes> kNames{"a", "b", "c", "example.json", "record.bin"};

// Records that are small, of which several fit into the cache, and larger than kWholeRecordSize.
const std::vector<size_t> kSizes{6'000, 400'000, 1'500'000};

// First layout: "a" is half as long as "b"; other: twice as long. Both have as many bytes.
enum class Layout { kFirst, kOther };

std::vector<Bytes> records_of(Layout layout, size_t size) {
  const bool is_first = layout == Layout::kFirst;
  std::vector<Bytes> records;
  for (uint32_t i = 0; i < kCount; ++i) {
    const Bytes a = pattern(is_first ? size : 2 * size, 2 * i + 100 * (is_first ? 1 : 2));
    const Bytes b = pattern(is_first ? 2 * size : size, 2 * i + 100 * (is_first ? 1 : 2) + 1);
    records.push_back(example(entry("a", bytes_list({a})) + entry("b", bytes_list({b})) +
                              entry("c", int64_list({i, is_first ? 1 : 2}))));
  }
  return records;
}

struct ChangingFile {
  explicit ChangingFile(size_t size)
      : first(records_of(Layout::kFirst, size)), other(records_of(Layout::kOther, size)) {
    path = folder.write("data.tfrecord", framed(first));
    REQUIRE(framed(first).size() == framed(other).size());
  }

  // Overwrites it in place. If `cold`, the page cache then holds none of it.
  void overwrite(const std::vector<Bytes>& records, bool cold) const {
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << framed(records);
    if (cold) drop_cached_pages(path);
  }

  TemporaryFolder folder;
  std::vector<Bytes> first;
  std::vector<Bytes> other;
  std::string path;
};

const VolumeOptions kOptions{.cache_bytes = size_t{64} << 20,
                             .packs = {.examples = {.extensions = false}}};

std::map<Bytes, Bytes> expected(const Bytes& record, size_t number) {
  return files_of(record, number, {.extensions = false});
}

void check_record(Volume& volume, const Bytes& record, size_t number) {
  for (const auto& [name, content] : expected(record, number)) {
    const auto& shown = name;  // A lambda cannot capture a structured binding (C++20).
    CAPTURE(shown);
    const Bytes path = "00000000" + std::to_string(number) + "/" + name;
    const Ino ino = BlockingVolume(volume).resolve(path);
    CHECK((read_whole(volume, ino) == content));
  }
}

// Drops what is kept in memory for later requests, except the folder that was used last.
void forget(Volume& volume) {
  volume.limit_cache(0);
  volume.limit_cache(size_t{64} << 20);
}

}  // namespace

TEST_CASE("a record that is overwritten after its folder was read fails, until it is restored") {
  for (const size_t size : kSizes) {
    CAPTURE(size);
    const ChangingFile file(size);
    for (const bool cold : {false, true}) {
      for (const bool is_dropped : {false, true}) {
        CAPTURE(cold);
        CAPTURE(is_dropped);
        Volume volume({file.path}, kOptions);
        BlockingVolume blocking(volume);
        std::vector<Ino> inos;
        for (const Bytes& name : kNames) inos.push_back(blocking.resolve("000000002/" + name));
        CHECK(std::ranges::count(inos, Ino{0}) == 0);
        if (is_dropped) (void)blocking.resolve("000000003/a");
        forget(volume);
        const Ino folder = ExampleTree::folder_ino(2);
        CHECK((volume.find_tree(Need::kEntries, folder) == nullptr) == is_dropped);

        file.overwrite(file.other, cold);
        for (int again = 0; again < 2; ++again) {
          for (const Ino ino : inos) {
            CHECK_THROWS_WITH_AS((void)blocking.read(ino, 0, 10), doctest::Contains("overwritten"),
                                 ChecksumError);
          }
          if (is_dropped) {
            CHECK_THROWS_AS((void)blocking.load_tree(Need::kEntries, folder), ChecksumError);
          }
        }
        // Nobody has looked into this record before, so its old content is unknown.
        check_record(volume, file.other[4], 4);

        file.overwrite(file.first, cold);
        check_record(volume, file.first[2], 2);
        forget(volume);
        CHECK_THROWS_AS((void)read_whole(volume, blocking.resolve("000000004/b")), ChecksumError);
      }
    }
  }
}

TEST_CASE("reads of a record that was overwritten give its old bytes or an error") {
  for (const size_t size : kSizes) {
    CAPTURE(size);
    const ChangingFile file(size);
    Volume volume({file.path}, kOptions);
    const auto files = expected(file.first[1], 1);
    std::map<Bytes, Ino> inos;
    for (const Bytes& name : kNames) {
      inos[name] = BlockingVolume(volume).resolve("000000001/" + name);
      const Slice begin = BlockingVolume(volume).read(inos[name], 0, 7);
      CHECK(text(begin.bytes) == files.at(name).substr(0, 7));
    }
    file.overwrite(file.other, false);
    for (const auto& [name, ino] : inos) {
      const auto& shown = name;  // A lambda cannot capture a structured binding (C++20).
      CAPTURE(shown);
      try {
        const Bytes content = read_whole(volume, ino);
        CHECK((content == files.at(name)));
      } catch (const ChecksumError&) {  // the old bytes are no longer there
      }
    }
  }
}

TEST_CASE("a record that was damaged at the first read of its folder can be read when sound") {
  const ChangingFile file(400'000);
  std::vector<Bytes> damaged = file.other;
  damaged[2][damaged[2].size() / 2] ^= 1;
  Bytes bytes = framed(file.other);
  const size_t place = 2 * frame(file.other[0]).size() + 12 + damaged[2].size() / 2;
  bytes[place] ^= 1;
  std::fstream(file.path, std::ios::in | std::ios::out | std::ios::binary) << bytes;
  Volume volume({file.path}, kOptions);
  CHECK_THROWS_WITH_AS((void)BlockingVolume(volume).resolve("000000002/a"),
                       doctest::Contains("checksum mismatch"), ChecksumError);
  file.overwrite(file.first, false);
  check_record(volume, file.first[2], 2);
}

TEST_CASE("without checksums, a file that is now shorter fills no memory of its old size") {
  for (const size_t size : kSizes) {
    CAPTURE(size);
    const ChangingFile file(size);
    VolumeOptions options = kOptions;
    options.check_data = false;
    Volume volume({file.path}, options);
    BlockingVolume blocking(volume);
    const Ino b = blocking.resolve("000000002/b");
    (void)blocking.resolve("000000003/a");
    forget(volume);
    file.overwrite(file.other, true);
    Bytes target(2 * size, '\0');
    const std::vector<std::pair<Ino, std::span<std::byte>>> wanted{
        {b, std::as_writable_bytes(std::span(target))}};
    CHECK_THROWS_WITH_AS(blocking.read_files(wanted),
                         (file.path + ": \"000000002/b\" has changed size while it was read; "
                                      "restore the file, or open it anew")
                             .c_str(),
                         FormatError);
  }
}
