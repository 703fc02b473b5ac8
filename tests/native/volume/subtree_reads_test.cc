// native/volume over TFRecord: the folders of records, made, dropped and made again, and the bytes
// of their files; read by one caller and by many, from memory, page cache and storage.

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>

#include "example_folders.h"
#include "frames.h"
#include "io/error.h"
#include "page_cache.h"
#include "prefetch_rig.h"
#include "threads.h"
#include "volume/blocking_volume.h"
#include "volume/made_file.h"
#include "volume/volume.h"
#include "whole_files.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::string_literals;

namespace {

constexpr size_t kMib = size_t{1} << 20;
constexpr size_t kLarge = 5'000'000;  // is read in chunks

Bytes photo(uint32_t number, size_t image_size) {
  return example(
      entry("image/encoded", bytes_list({"\xff\xd8\xff"s + pattern(image_size, number)})) +
      entry("image/size", int64_list({640, 480, -static_cast<int64_t>(number)})) +
      entry("box", float_list({0.5, 1.5})) + entry("tags", bytes_list({"red", "blue"})));
}

// Records of each size that is read in its own way, and some that are no Examples.
struct ExampleFile {
  explicit ExampleFile(std::vector<Bytes> content = {}) : records(std::move(content)) {
    if (records.empty()) {
      records = {photo(0, 100),   photo(1, 110'000), "",
                 "no Example",    photo(4, kMib),    photo(5, 4 * kMib - 1000),
                 photo(6, kLarge)};
    }
    Bytes file;
    for (const Bytes& record : records) {
      offsets.push_back(file.size() + 12);
      file += frame(record);
    }
    path = folder.write("data.tfrecord", file);
  }

  void damage(size_t record, size_t at) const { flip_byte(path, offsets[record] + at); }

  // Return the paths of a record's files and their content: by the folder's own rules, from the
  // record. Only one thread may call this, as the first call makes them.
  [[nodiscard]] const std::map<Bytes, Bytes>& expected(size_t record) const {
    static std::map<std::pair<size_t, Bytes>, std::map<Bytes, Bytes>> known;
    const auto [place, is_new] = known.try_emplace({record, records[record]});
    if (is_new) place->second = files_of(records[record], record, {});
    return place->second;
  }

  TemporaryFolder folder;
  std::vector<Bytes> records;
  std::vector<size_t> offsets;
  std::string path;
};

Bytes folder_name(size_t record) { return "00000000" + std::to_string(record); }

void check_record(Volume& volume, const ExampleFile& file, size_t record, size_t step) {
  BlockingVolume blocking(volume);
  for (const auto& [path, content] : file.expected(record)) {
    const auto& shown = path;  // A lambda cannot capture a structured binding (C++20).
    CAPTURE(shown);
    const Ino ino = blocking.resolve(folder_name(record) + "/" + path);
    REQUIRE(ino != 0);
    const auto attributes = volume.attributes(*blocking.load_tree(Need::kInode, ino), ino);
    REQUIRE(attributes);
    CHECK(attributes->size == content.size());
    CHECK((read_whole(volume, ino, step) == content));
  }
}

}  // namespace

TEST_CASE("files that are made from records can be read in parts, whatever the cache may hold") {
  const ExampleFile file;
  Volume volume({file.path}, {.cache_bytes = 16 * kMib});
  BlockingVolume blocking(volume);
  size_t made_count = 0;
  for (size_t record = 0; record < file.records.size(); ++record) {
    for (const auto& [path, content] : file.expected(record)) {
      const auto& shown = path;  // A lambda cannot capture a structured binding (C++20).
      CAPTURE(shown);
      const Ino ino = blocking.resolve(folder_name(record) + "/" + path);
      const TreePtr tree = blocking.load_tree(Need::kInode, ino);
      const auto made = MadeFile::open(volume, tree, ino, true);
      REQUIRE((made != nullptr) == (path.ends_with(".npy") || path == "example.json"));
      if (!made) continue;
      ++made_count;
      Bytes found(made->size(), '?');
      const auto bytes = std::as_writable_bytes(std::span(found));
      for (size_t at = 0; at < bytes.size(); at += 50) {
        made->read(at, bytes.subspan(at, std::min<size_t>(bytes.size() - at, 50)));
      }
      CHECK((found == content));
    }
  }
  CHECK(made_count == 5 * 3);
  const Ino folder = ExampleTree::folder_ino(0);
  CHECK(MadeFile::open(volume, blocking.load_tree(Need::kInode, folder), folder, true) == nullptr);
}

TEST_CASE("no file is made from a damaged record") {
  const ExampleFile file;
  Volume volume({file.path}, {});
  BlockingVolume blocking(volume);
  const Ino ino = blocking.resolve("000000004/example.json");
  const TreePtr tree = blocking.load_tree(Need::kInode, ino);
  file.damage(4, 1000);
  CHECK_THROWS_AS(static_cast<void>(MadeFile::open(volume, tree, ino, true)), ChecksumError);
  CHECK(MadeFile::open(volume, tree, ino, false) != nullptr);
}

TEST_CASE("every file of every record is right, cached and not, with a large and a small cache") {
  const ExampleFile file;
  for (const size_t cache_bytes : {256 * kMib, 16 * kMib}) {
    for (const bool cached : {true, false}) {
      CAPTURE(cache_bytes);
      CAPTURE(cached);
      Volume volume({file.path}, {.cache_bytes = cache_bytes});
      if (!cached) drop_cached_pages(file.path);
      for (size_t record = 0; record < file.records.size(); ++record) {
        check_record(volume, file, record, cached ? 131'072 : kMib);
      }
      CHECK(volume.counters().checksums_failed == 0);
      // The thread that has read the last bytes may still be about to release them.
      CHECK(wait_until([&] { return volume.counters().bytes_in_flight == 0; }));
      CHECK(volume.counters().bytes_kept <= cache_bytes / 4);
    }
  }
}

TEST_CASE("a record is read and verified once for its folder, and then read from memory") {
  const ExampleFile file;
  Volume volume({file.path}, {});
  drop_cached_pages(file.path);
  const Ino ino = BlockingVolume(volume).resolve("000000001/image/encoded.jpg");
  const Counters& counters = volume.counters();
  CHECK(counters.bytes_storage + counters.bytes_page_cache == file.records[1].size());
  CHECK(counters.checksums_verified == 1);
  CHECK(counters.reads == 0);
  const auto slice = volume.read(ino, 0, kMib, [](const Slice&, const std::exception_ptr&) {});
  REQUIRE(slice);
  CHECK(slice->bytes.size() == 110'003);
  // The slice points into the block itself.
  CHECK(slice->bytes.data() > slice->owner->bytes.data());
  CHECK(slice->bytes.data() < slice->owner->bytes.data() + slice->owner->bytes.size());
  CHECK(counters.bytes_memory == 110'003);
  CHECK(counters.checksums_verified == 1);
  CHECK(counters.reads == 1);
  CHECK(counters.bytes_served == 110'003);
}

TEST_CASE("a large record is read once for its folder, and then by chunks") {
  const ExampleFile file;
  Volume volume({file.path}, {});
  const Ino ino = BlockingVolume(volume).resolve("000000006/image/encoded.jpg");
  const Counters& counters = volume.counters();
  const uint64_t looked = counters.bytes_storage + counters.bytes_page_cache;
  CHECK(looked == file.records[6].size());
  const Slice slice = BlockingVolume(volume).read(ino, 4'000'000, 10);
  CHECK(text(slice.bytes) == pattern(kLarge, 6).substr(3'999'997, 10));
  CHECK(counters.bytes_storage + counters.bytes_page_cache <= looked + 2 * kChunkSize);
}

TEST_CASE("a volume of Examples has the expected attributes, listings and paths") {
  const ExampleFile file;
  Volume volume({file.path}, {.uid = 7, .umask = 0027});
  BlockingVolume blocking(volume);
  CHECK(volume.kind() == TreeKind::kExamples);
  const Ino folder = ExampleTree::folder_ino(1);
  CHECK(blocking.resolve("000000001") == folder);
  CHECK(volume.counters().bytes_page_cache + volume.counters().bytes_storage == 0);
  CHECK(volume.find_tree(Need::kInode, folder).get() == &volume.tree());
  CHECK(volume.find_tree(Need::kEntries, kRootIno).get() == &volume.tree());
  CHECK_FALSE(volume.find_tree(Need::kEntries, folder));
  CHECK(volume.path(folder + 3) == "000000001");  // the file's name is not known yet

  const TreePtr part = blocking.load_tree(Need::kEntries, folder);
  CHECK(volume.find_tree(Need::kEntries, folder) == part);
  for (const Ino directory : {kRootIno, folder, blocking.resolve("000000001/image")}) {
    const auto attributes = volume.attributes(*part, directory);
    REQUIRE(attributes);
    CHECK(attributes->mode == (S_IFDIR | 0750U));
    CHECK(attributes->nlink == 1);
    CHECK(attributes->uid == 7);
  }
  const Ino image = blocking.resolve("./000000001//image/encoded.jpg");
  CHECK(volume.attributes(*part, image)->mode == (S_IFREG | 0640U));
  CHECK(volume.attributes(*part, image)->size == 110'003);
  CHECK(volume.path(image) == "000000001/image/encoded.jpg");
  CHECK(blocking.resolve("000000001/image/absent") == 0);
  CHECK(blocking.resolve("000000001/image/encoded.jpg/x") == 0);
  CHECK(blocking.resolve("000000007/record.bin") == 0);

  const Ino beyond = ExampleTree::folder_ino(file.records.size());
  for (const Ino nothing : {Ino{0}, Ino{2}, folder + 4000, beyond, beyond + 1, UINT64_MAX}) {
    CAPTURE(nothing);
    CHECK_FALSE(volume.attributes(*blocking.load_tree(Need::kInode, nothing), nothing));
    CHECK(blocking.load_tree(Need::kEntries, nothing)->list(nothing, 0, 10).empty());
    CHECK_THROWS_AS((void)blocking.read(nothing, 0, 1), RangeError);
  }
  for (const Ino directory : {kRootIno, folder, folder + 3}) {
    if (volume.attributes(*part, directory)->mode & S_IFDIR) {
      CHECK_THROWS_AS((void)blocking.read(directory, 0, 1), RangeError);
    }
  }
}

TEST_CASE("a damaged record fails, whatever is requested; other records do not") {
  const ExampleFile file;
  for (const size_t bad : {1UL, 4UL, 6UL}) {
    CAPTURE(bad);
    file.damage(bad, file.records[bad].size() / 2);
    for (const bool cached : {true, false}) {
      CAPTURE(cached);
      if (!cached) drop_cached_pages(file.path);
      Volume volume({file.path}, {});
      BlockingVolume blocking(volume);
      const Ino folder = ExampleTree::folder_ino(bad);
      for (int again = 0; again < 2; ++again) {
        CHECK_THROWS_AS((void)blocking.load_tree(Need::kEntries, folder), ChecksumError);
        CHECK_THROWS_AS((void)blocking.load_tree(Need::kInode, folder + 1), ChecksumError);
        CHECK_THROWS_AS((void)blocking.read(folder + 1, 0, 1), ChecksumError);
      }
      CHECK(volume.attributes(volume.tree(), folder));
      CHECK(volume.note_failure(folder + 1) == folder);
      CHECK_FALSE(volume.note_failure(folder + 2));
      check_record(volume, file, 5, kMib);
      Volume trusting({file.path}, {.check_data = false});
      CHECK(read_whole(trusting, BlockingVolume(trusting).resolve(folder_name(bad) + "/record.bin"),
                       kMib)
                .size() == file.records[bad].size());
    }
    file.damage(bad, file.records[bad].size() / 2);  // the record is whole again
  }
}

TEST_CASE("records that are too large show no files, and files that are too large fail") {
  const Bytes ones = example(entry("long", int64_list(std::vector<int64_t>(300'000, 1))) +
                             entry("short", int64_list({1})));
  const ExampleFile file({photo(0, kLarge), ones});
  Volume volume({file.path}, {.cache_bytes = 8 * kMib});
  BlockingVolume blocking(volume);
  const Ino folder = ExampleTree::folder_ino(0);
  CHECK(blocking.load_tree(Need::kEntries, folder)->list(folder, 0, 10).size() == 1);
  CHECK((read_whole(volume, blocking.resolve("000000000/record.bin"), kMib) == file.records[0]));
  const Ino too_long = blocking.resolve("000000001/long.npy");
  REQUIRE(too_long != 0);
  CHECK_THROWS_WITH_AS((void)blocking.read(too_long, 0, 10), doctest::Contains("--cache-mb"),
                       TooLargeError);
  CHECK(blocking.read(blocking.resolve("000000001/short.npy"), 0, 1000).bytes.size() == 136);
}

TEST_CASE("after the limit was set to 0, all that could be read still can") {
  const ExampleFile file({photo(0, kLarge), photo(1, 70'000), photo(2, 300)});
  Volume volume({file.path}, {.cache_bytes = 16 * kMib});
  for (size_t record = 0; record < 3; ++record) check_record(volume, file, record, kMib);
  volume.limit_cache(0);
  CHECK(volume.counters().bytes_kept == 0);
  for (size_t record = 0; record < 3; ++record) check_record(volume, file, record, kMib);
  volume.limit_cache(64 * kMib);
  for (size_t record = 0; record < 3; ++record) check_record(volume, file, record, 10'000);
}

TEST_CASE("dropped folders stay valid while they are used, and are made again") {
  std::vector<Bytes> records;
  for (uint32_t i = 0; i < 50; ++i) records.push_back(photo(i, 1000));
  const ExampleFile file(records);
  Volume volume({file.path}, {.cache_bytes = 32'768});  // 2 KiB for folders: two or three
  BlockingVolume blocking(volume);
  const Ino folder = ExampleTree::folder_ino(0);
  const TreePtr first = blocking.load_tree(Need::kEntries, folder);
  for (size_t record = 1; record < 50; ++record) {
    (void)blocking.load_tree(Need::kEntries, ExampleTree::folder_ino(record));
  }
  CHECK_FALSE(volume.find_tree(Need::kEntries, folder));
  const TreePtr again = blocking.load_tree(Need::kEntries, folder);
  CHECK(again != first);
  for (Ino ino = folder; first->inode(ino); ++ino) CHECK(first->path(ino) == again->path(ino));
  // A file that was looked up before is read without another lookup of its folder.
  const Ino image = blocking.resolve("000000007/image/encoded.jpg");
  for (size_t record = 20; record < 50; ++record) {
    (void)blocking.load_tree(Need::kEntries, ExampleTree::folder_ino(record));
  }
  CHECK((read_whole(volume, image, 500) == file.expected(7).at("image/encoded.jpg")));
}

TEST_CASE("many requests for the folder of one cold record share one fetch") {
  const ExampleFile file;
  for (const size_t record : {1UL, 6UL}) {
    Volume volume({file.path}, {});
    drop_cached_pages(file.path);
    const Ino folder = ExampleTree::folder_ino(record);
    int told = 0;
    for (int i = 0; i < 20; ++i) {
      const auto tell = [&told](const TreePtr& part, const std::exception_ptr& error) {
        CHECK(part);
        CHECK_FALSE(error);
        ++told;
      };
      if (volume.load_tree(Need::kEntries, folder, tell)) ++told;
    }
    while (told < 20) {
      volume.wait(10'000);
      volume.poll();
    }
    const Counters& counters = volume.counters();
    CHECK(counters.bytes_storage + counters.bytes_page_cache == file.records[record].size());
    CHECK(counters.checksums_verified == 1);
  }
}

TEST_CASE("threads share a volume") {
  constexpr size_t kLargest = 4;
  std::vector<Bytes> records;
  for (uint32_t i = 0; i < 9; ++i) records.push_back(photo(i, i == kLargest ? kLarge : 50'000));
  const ExampleFile file(records);
  std::vector<std::map<Bytes, Bytes>> expected;
  for (size_t i = 0; i < records.size(); ++i) expected.push_back(file.expected(i));
  // First there is room for the large record, then hardly any, so that folders come and go.
  for (const size_t cache_bytes : {12 * kMib, size_t{32'768}}) {
    Volume volume({file.path}, {.cache_bytes = cache_bytes});
    drop_cached_pages(file.path);
    std::atomic<int> wrong{0};
    in_threads(4, [&](uint32_t seed) {
      std::mt19937 random(seed);
      BlockingVolume blocking(volume);
      for (int i = 0; i < 60; ++i) {
        const size_t record = random() % records.size();
        if (record == kLargest && cache_bytes < kMib) continue;
        const auto& files = expected[record];
        const auto& [path, content] = *std::next(files.begin(), random() % files.size());
        const Ino ino = blocking.resolve(folder_name(record) + "/" + path);
        const size_t offset = random() % (content.size() + 1);
        const Slice slice = blocking.read(ino, offset, 100'000);
        if (text(slice.bytes) != content.substr(offset, 100'000)) ++wrong;
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("whole files are read in one call; a bad one fails the call") {
  const ExampleFile file;
  file.damage(0, 50);
  Volume volume({file.path}, {});
  BlockingVolume blocking(volume);
  drop_cached_pages(file.path);
  std::vector<Bytes> targets;
  std::vector<std::pair<Ino, std::span<std::byte>>> wanted;
  std::vector<Bytes> expected;
  for (const size_t record : {1UL, 4UL, 5UL, 6UL, 1UL}) {
    for (const auto& [path, content] : file.expected(record)) {
      expected.push_back(content);
      targets.emplace_back(content.size(), '\0');
      wanted.emplace_back(blocking.resolve(folder_name(record) + "/" + path),
                          std::span<std::byte>());
    }
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    wanted[i].second = std::as_writable_bytes(std::span(targets[i]));
  }
  blocking.read_files(wanted);
  CHECK((targets == expected));
  Bytes bad(10, '\0');
  wanted.emplace_back(ExampleTree::folder_ino(0) + 1, std::as_writable_bytes(std::span(bad)));
  CHECK_THROWS_AS(blocking.read_files(wanted), ChecksumError);
}

TEST_CASE("no read writes to the memory of a caller that gave up waiting") {
  const ExampleFile file;
  Volume volume({file.path}, {});
  drop_cached_pages(file.path);
  struct GivenUp {};
  const Ino image = BlockingVolume(volume).resolve("000000006/image/encoded.jpg");
  drop_cached_pages(file.path);
  {
    Bytes target(kLarge + 3, '\0');
    const std::vector<std::pair<Ino, std::span<std::byte>>> wanted = {
        {image, std::as_writable_bytes(std::span(target))}};
    BlockingVolume impatient(volume, [] { throw GivenUp{}; });
    try {
      impatient.read_files(wanted);
    } catch (const GivenUp&) {
    }
  }
  // Reads that are still under way end here. A sanitizer sees if they write to memory that is gone.
  CHECK((read_whole(volume, image, kMib).size() == kLarge + 3));
}

TEST_CASE("a forked child reads records with the volume it inherited") {
  const ExampleFile file;
  Volume volume({file.path}, {});
  check_record(volume, file, 1, kMib);
  const pid_t child = fork_among_threads();
  if (child == 0) {
    const Ino ino = BlockingVolume(volume).resolve("000000004/image/encoded.jpg");
    _exit(read_whole(volume, ino, kMib).size() == kMib + 3 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}
