// native/volume: several packs as one volume, sets of shards, and damaged bytes of a mapped
// index.

#include <doctest/doctest.h>

#include <atomic>
#include <random>
#include <set>

#include "index_file.h"
#include "io/error.h"
#include "open/set_inventory.h"
#include "page_cache.h"
#include "scratch.h"
#include "threads.h"
#include "volume/blocking_volume.h"
#include "volume/volume.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

constexpr size_t kMib = size_t{1} << 20;

// Names and contents of files, to be packed with an index.
struct Files {
  std::vector<Bytes> names;
  std::vector<Bytes> contents;
};

Files numbered(size_t first, size_t count) {
  Files files;
  for (size_t i = first; i < first + count; ++i) {
    files.names.push_back(std::to_string(100'000 + i));
    files.contents.push_back(pattern(100 + i % 7, static_cast<uint32_t>(i)));
  }
  return files;
}

Bytes pack(const Files& files, const std::optional<IndexSet>& set = std::nullopt) {
  Sections sections = flat_sections(files.names);
  if (set) append_le(section(sections, Section::kSet), *set);
  return indexed_pack(files.contents, sections).file;
}

IndexSet shard_of_set(uint32_t number, uint32_t count) {
  return {.id = {std::byte{7}}, .number = number, .count = count, .zero = 0};
}

Bytes read(Volume& volume, const std::string& path) {
  BlockingVolume blocking(volume);
  const Ino ino = blocking.resolve(path);
  REQUIRE(ino != 0);
  return text(blocking.read(ino, 0, 1 << 20).bytes);
}

std::vector<std::string> gaps_of(const std::vector<std::pair<uint32_t, uint32_t>>& shards) {
  SetInventory sets;
  for (const auto& [number, count] : shards) sets.add("p", shard_of_set(number, count));
  return sets.gaps();
}

}  // namespace

TEST_CASE("several packs share one root and one index space, and have all their bytes") {
  const TemporaryFolder folder;
  const Files first = numbered(0, 40);
  const Files second = numbered(40, 70);
  Volume volume({folder.write("a.ffr", pack(first)), folder.write("b.ffr", pack(second))}, {});
  CHECK(volume.kind() == TreeKind::kFolder);
  CHECK(volume.warnings().empty());
  CHECK(volume.shards().count() == 41 + 71);
  const auto listed = volume.tree().list(kRootIno, 0, 1000);
  REQUIRE(listed.size() == 110);
  for (size_t i = 0; i < listed.size(); ++i) {
    CHECK(listed[i].name == std::to_string(100'000 + i));
    const auto attributes = volume.attributes(volume.tree(), listed[i].ino);
    REQUIRE(attributes);
    CHECK(attributes->mode == (S_IFREG | 0644U));
    CHECK(attributes->mtime_ns == 1'000'000'000 + static_cast<int64_t>(i < 40 ? i : i - 40));
    CHECK(read(volume, listed[i].name) == (i < 40 ? first.contents[i] : second.contents[i - 40]));
  }
  CHECK(volume.hint("41")->ino == volume.tree().lookup(kRootIno, "100040"));
  CHECK(volume.hint("/100040")->record == 41);
  CHECK_FALSE(volume.hint("40"));  // that is the index of the first pack
}

TEST_CASE("threads share a volume of several packs") {
  const TemporaryFolder folder;
  const Files first = numbered(0, 200);
  const Files second = numbered(200, 200);
  Volume volume({folder.write("a.ffr", pack(first)), folder.write("b.ffr", pack(second))}, {});
  std::atomic<int> wrong{0};
  in_threads(4, [&](uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 300; ++i) {
      const size_t at = random() % 400;
      const auto listed = volume.tree().list(kRootIno, at, 5);
      if (listed.empty() || listed[0].name != std::to_string(100'000 + at)) ++wrong;
      const Bytes& expected = at < 200 ? first.contents[at] : second.contents[at - 200];
      const Ino ino = volume.tree().lookup(kRootIno, std::to_string(100'000 + at));
      if (volume.attributes(volume.tree(), ino)->size != expected.size()) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("the shards that a set lacks are named") {
  CHECK(gaps_of({{0, 1}}).empty());
  CHECK(gaps_of({{2, 3}, {0, 3}, {1, 3}}).empty());
  CHECK(gaps_of({{0, 2}, {1, 2}, {2, 3}}).empty());  // one shard was appended to the set
  CHECK(gaps_of({{0, 3}}) ==
        std::vector<std::string>{"p: is one of 3 shards; missing: number 1-2"});
  CHECK(gaps_of({{1, 7}, {3, 7}}) ==
        std::vector<std::string>{"p: is one of 7 shards; missing: number 0, 2, 4-6"});
  CHECK(gaps_of({{0, 2}, {0, 2}}).size() == 1);
  // Numbers as a hostile pack may claim them.
  CHECK(gaps_of({{UINT32_MAX, 0}}).size() == 1);
  CHECK(gaps_of({{0, UINT32_MAX}}) ==
        std::vector<std::string>{"p: is one of 4294967295 shards; missing: number 1-4294967294"});
  std::vector<std::pair<uint32_t, uint32_t>> even;
  for (uint32_t i = 0; i < 100; ++i) even.emplace_back(2 * i, 0);
  CHECK(gaps_of(even)[0].ends_with("15, 17, 19, and more"));
}

TEST_CASE("a set that lacks shards is refused unless that is allowed") {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.ffr", pack(numbered(0, 3), shard_of_set(0, 3)));
  const std::string c = folder.write("c.ffr", pack(numbered(6, 3), shard_of_set(2, 3)));
  const std::string other = folder.write("z.ffr", pack(numbered(9, 3)));
  CHECK_THROWS_WITH_AS(Volume({a, c, other}, {}), doctest::Contains("missing: number 1"),
                       FormatError);
  const Volume rest({a, c, other}, {.packs = {.allow_missing = true}});
  REQUIRE(rest.warnings().size() == 1);
  CHECK(rest.tree().file_count() == 9);
  CHECK(Volume({a}, {}).tree().file_count() == 3);  // one pack alone opens without its set
  const std::string b = folder.write("b.ffr", pack(numbered(3, 3), shard_of_set(1, 3)));
  CHECK(Volume({folder / ""}, {}).tree().file_count() == 12);
  CHECK_THROWS_WITH_AS(Volume({a, b, c, a}, {}), doctest::Contains("100000"), FormatError);
}

TEST_CASE("a directory that has only files behind the last known one is refused") {
  const TemporaryFolder folder;
  folder.write("b.ffr", pack(numbered(0, 3)));
  const PackPolicy policy{.last_files = {folder / "a.ffr"}};
  CHECK_THROWS_WITH_AS(Volume({folder / ""}, {.packs = policy}), doctest::Contains("a.ffr"),
                       StorageError);
}

TEST_CASE("a read of a large file with chunk checksums reads only the chunks it touches") {
  const TemporaryFolder folder;
  const Bytes content = pattern(9 * kMib + 17, 1);
  Sections sections = flat_sections({"large"});
  append_le(section(sections, Section::kChunked), ChunkedRecord{.record = 0, .first_chunk = 0});
  for (size_t at = 0; at < content.size(); at += kMib) {
    append_le(section(sections, Section::kChunks), crc32c(view(content.substr(at, kMib))));
  }
  Bytes file = indexed_pack({content}, sections).file;
  const size_t begin = ffrecord_header_size(2);
  file[begin + 6 * kMib] ^= 1;
  const std::string path = folder.write("a.ffr", file);
  drop_cached_pages(path);
  Volume volume({path}, {});
  BlockingVolume blocking(volume);
  const Ino ino = blocking.resolve("large");
  CHECK(text(blocking.read(ino, 3 * kMib - 5, 10).bytes) == content.substr(3 * kMib - 5, 10));
  CHECK(text(blocking.read(ino, 9 * kMib + 10, 100).bytes) == content.substr(9 * kMib + 10));
  CHECK(volume.counters().bytes_storage + volume.counters().bytes_page_cache <= 3 * kMib);
  CHECK_THROWS_WITH_AS((void)blocking.read(ino, 6 * kMib + 1000, 1),
                       doctest::Contains("are damaged"), ChecksumError);
  CHECK(text(blocking.read(ino, 7 * kMib, 10).bytes) == content.substr(7 * kMib, 10));
}

TEST_CASE("a damaged index gives each reader an error, and no thread dies of it") {
  const TemporaryFolder folder;
  const Files files = numbered(0, 12'000);
  PackedIndex made = indexed_pack(files.contents, flat_sections(files.names));
  // Change a byte of an inode and one of a record's offset in the header, both in a second block:
  // the first and the last block are read when the pack is opened.
  made.file[made.index_begin + 3000 * sizeof(IndexInode)] ^= 1;
  made.file[12 + 4 * 12'001 + 8 * 7000] ^= 1;
  const std::string path = folder.write("a.ffr", made.file);
  Volume volume({path}, {});
  CHECK_THROWS_AS((void)volume.tree().inode(3001), ChecksumError);
  CHECK_THROWS_AS((void)volume.attributes(volume.tree(), 3001), ChecksumError);
  CHECK(volume.path(3001) == "inode 3001");
  CHECK_FALSE(volume.hint("/" + files.names[3000]));
  CHECK_THROWS_AS((void)volume.extent(7002), ChecksumError);

  std::atomic<int> pushed{0};
  volume.start_prefetch([&](Ino, uint64_t, std::span<const std::byte>) { return ++pushed > 0; });
  for (const Ino ino : std::vector<Ino>{2, 3, 4, 2040, 2041, 2042, 2043, 3000, 7000, 11'900}) {
    bool is_over = false;
    try {
      const auto now =
          volume.read(ino, 0, 10, [&](const Slice&, const std::exception_ptr&) { is_over = true; });
      is_over = is_over || now.has_value();
    } catch (const ChecksumError&) {
      is_over = true;
    }
    while (!is_over) {
      volume.wait(10'000);
      volume.poll();
    }
  }
  CHECK(volume.stop_prefetch(std::chrono::seconds(5)));
}

TEST_CASE("a file can be read although the index's map from records to files is damaged") {
  const TemporaryFolder folder;
  const Files files = numbered(0, 4000);
  Sections sections = flat_sections(files.names);
  // Moves the header's section, which is read at opening, into another block.
  section(sections, Section::kChunked).resize(kIndexBlockSize);
  PackedIndex made = indexed_pack(files.contents, sections);
  const SectionPlace place = made.trailer.sections[static_cast<size_t>(Section::kFiles)];
  made.file[made.index_begin + place.offset + place.size - 1] ^= 1;
  Volume volume({folder.write("a.ffr", made.file)}, {});
  CHECK(text(BlockingVolume(volume).read(5, 0, 1000).bytes) == files.contents[3]);
  CHECK_THROWS_AS((void)volume.tree().file_of(3), ChecksumError);
}
