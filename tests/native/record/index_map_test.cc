// native/record: mapped indexes in packs, sound and hostile, and FFRecord files that are opened
// with them. index_sidecar_test.cc tests sidecars.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>

#include "damage.h"
#include "index_file.h"
#include "io/error.h"
#include "record/ffrecord_shard.h"
#include "record/index_map.h"
#include "threads.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

// A cache folder that nobody has.
const bool has_no_cache = setenv("XDG_CACHE_HOME", "/nonexistent", 1) == 0;

const std::vector<Bytes> kNames{"a", "bb", "ccc"};
const std::vector<Bytes> kRecords{"first", "", pattern(5'000, 1)};

// The file must open as if it had no index, and give this warning.
void check_ignored(const Bytes& file, const Bytes& reason) {
  CAPTURE(reason);
  const TemporaryFolder folder;
  const FfrecordShard shard(folder.write("p.ffr", file), IndexUse::kIfSound);
  CHECK(shard.index() == nullptr);
  CHECK(shard.warning().find(reason) != Bytes::npos);
  CHECK(shard.warning().starts_with(folder / "p.ffr: damaged index: "));
  CHECK(shard.warning().ends_with("; restore the file or pack it again; ignored until then"));
  CHECK(shard.offsets().size() == shard.count() + 1);
}

// Like check_ignored(), for a sound pack whose trailer is changed.
void check_trailer(const std::function<void(IndexTrailer&)>& change, const Bytes& reason) {
  check_ignored(with_trailer(indexed_pack(kRecords, flat_sections(kNames)).file, change), reason);
}

// A file that is opened with its index, which must be in use.
struct Indexed {
  explicit Indexed(const Bytes& file) : shard(folder.write("p.ffr", file), IndexUse::kIfSound) {
    REQUIRE(shard.index() != nullptr);
  }
  explicit Indexed(const Sections& sections) : Indexed(indexed_pack(kRecords, sections).file) {}
  [[nodiscard]] const IndexMap& index() const { return *shard.index(); }
  [[nodiscard]] uint64_t value(uint64_t slot) const {
    return index().load<IndexInode>(Section::kInodes, 32 * slot).value;
  }

  TemporaryFolder folder;
  FfrecordShard shard;
};

Bytes copy(const IndexMap& index, Section section, uint64_t offset, size_t size) {
  Bytes bytes(std::min<size_t>(size, 1000), '\0');
  // A span of more than 1000 bytes is never written, because index.copy() refuses it.
  index.copy(section, offset, std::as_writable_bytes(std::span(bytes.data(), size)));
  return bytes;
}

}  // namespace

TEST_CASE("an index at the end of a pack is found, and gives its entries") {
  REQUIRE(has_no_cache);
  const Indexed pack(flat_sections(kNames));
  CHECK(pack.shard.warning().empty());
  const IndexMap& index = pack.index();
  CHECK_FALSE(index.is_sidecar());
  CHECK(index.path() == pack.folder / "p.ffr");
  CHECK(index.record_count() == 4);
  CHECK(index.count(Section::kInodes) == 4);
  CHECK(index.count(Section::kDirectories) == 1);
  CHECK(index.link_count() == 0);
  CHECK_FALSE(index.set());
  const auto inode = index.load<IndexInode>(Section::kInodes, 64);
  CHECK(inode.value == 1);
  CHECK(inode.mtime_ns == 1'000'000'001);
  CHECK(inode.name_size == 2);
  CHECK(copy(index, Section::kNames, inode.name_offset, 2) == "bb");
  CHECK(index.load<uint32_t>(Section::kFiles, 12) == kNoFile);
  CHECK_NOTHROW(index.verify());
}

TEST_CASE("a shard gives the same extents with an index and without") {
  for (const size_t count : {1UL, 3UL, 5'460UL, 5'461UL, 20'000UL}) {
    CAPTURE(count);
    const TemporaryFolder folder;
    const auto names = many(count);
    const std::string path = folder.write("p.ffr", indexed_pack(names, flat_sections(names)).file);
    const FfrecordShard with(path, IndexUse::kIfSound);
    REQUIRE(with.index() != nullptr);
    CHECK(with.metadata_verified());
    CHECK(with.offsets().empty());
    check_same_extents(with, FfrecordShard(path));
    CHECK_NOTHROW(with.index()->verify());
  }
}

TEST_CASE("a pack without an index opens, and a file that is no pack is refused") {
  const TemporaryFolder folder;
  for (const auto& records : {std::vector<Bytes>{}, kRecords}) {
    const FfrecordShard shard(folder.write("p.ffr", ffrecord(records)), IndexUse::kIfSound);
    CHECK(shard.index() == nullptr);
    CHECK(shard.warning().empty());
    CHECK(shard.count() == records.size());
  }
  CHECK_THROWS_AS(FfrecordShard(folder.write("q.ffr", "12345"), IndexUse::kIfSound), FormatError);
}

TEST_CASE("a header without a checksum is verified by the index") {
  PackedIndex pack = indexed_pack(kRecords, flat_sections(kNames));
  put(pack.file, 0, uint32_t{0});
  CHECK(Indexed(pack.file).shard.metadata_verified());
}

TEST_CASE("reads beyond the end of a section are refused") {
  const Indexed pack(flat_sections(kNames));
  const IndexMap& index = pack.index();
  CHECK(copy(index, Section::kNames, 6, 0).empty());
  CHECK(copy(index, Section::kSet, 0, 0).empty());
  for (const auto& [offset, size] : std::vector<std::pair<uint64_t, size_t>>{
           {0, 7}, {6, 1}, {7, 0}, {UINT64_MAX, 1}, {1, SIZE_MAX}, {UINT64_MAX, SIZE_MAX}}) {
    CHECK_THROWS_WITH_AS((void)copy(index, Section::kNames, offset, size),
                         doctest::Contains("of its section names, which has 6"), FormatError);
  }
  CHECK_THROWS_AS((void)index.load<IndexSet>(Section::kSet, 0), FormatError);
}

TEST_CASE("an index is ignored if its trailer has wrong values, even under a right checksum") {
  check_trailer([](auto& t) { t.version = 2; }, "it is of version 2");
  check_trailer([](auto& t) { t.flags = 1; }, "its flags are 0x00000001");
  check_trailer([](auto& t) { t.zero.back() = std::byte{1}; }, "does not know");
  check_trailer([](auto& t) { ++t.record_count; }, "it is of 5 records, the file has 4");
  check_trailer([](auto& t) { t.record_count = 0; }, "it is of 0 records");
  check_trailer([](auto& t) { ++t.pack_size; }, "it is of a file of");
  check_trailer([](auto& t) { t.pack_mtime_ns = 1; }, "it is a sidecar's");
  check_trailer([](auto& t) { t.pack_header_crc = 1; }, "it is a sidecar's");
  check_trailer([](auto& t) { ++t.checksums_crc; }, "the checksum of its checksums is");
  check_trailer([](auto& t) { t.link_count = 4; }, "it says 4 symbolic links");
  for (const uint64_t size : {uint64_t{0}, uint64_t{8}, uint64_t{1} << 20, uint64_t{1} << 40,
                              UINT64_MAX, UINT64_MAX - 7}) {
    check_trailer([&](auto& t) { t.index_size = size; }, "it says that it has");
    check_trailer([&](auto& t) { t.checked_size = size; }, "it says that it has");
  }
  // Both sizes agree, but the index would begin 8 bytes later, or 8 bytes earlier.
  check_trailer([](auto& t) { t.checked_size -= 8, t.index_size -= 8; }, "its section");
  check_trailer([](auto& t) { t.checked_size += 8, t.index_size += 8; }, "its sections end at");
}

TEST_CASE("an index is ignored if its sections overlap, leave gaps, or cut an entry") {
  for (size_t i = 0; i < kSectionCount; ++i) {
    const auto name = Bytes("its section ") + section_name(static_cast<Section>(i));
    for (const uint64_t offset :
         {uint64_t{0}, uint64_t{8}, uint64_t{4}, uint64_t{1} << 20, UINT64_MAX, UINT64_MAX - 7}) {
      check_trailer([&](auto& t) { t.sections[i].offset ^= offset == 0 ? 16 : offset; }, name);
    }
    for (const uint64_t size :
         {UINT64_MAX, UINT64_MAX - 7, UINT64_MAX / 32 * 32, uint64_t{1} << 63, uint64_t{1} << 20}) {
      check_trailer([&](auto& t) { t.sections[i].size = size; }, "its section");
    }
  }
  check_trailer([](auto& t) { t.sections[0].size -= 1; }, "its section inodes");
  check_trailer([](auto& t) { t.sections[0].size = 0; }, "its section");
}

TEST_CASE("an index whose sections do not fit the pack is ignored") {
  const auto changed = [](Section which, const std::function<void(Bytes&)>& change) {
    Sections sections = flat_sections(kNames);
    change(section(sections, which));
    return indexed_pack(kRecords, sections).file;
  };
  const auto clear = [](Bytes& bytes) { bytes.clear(); };
  check_ignored(changed(Section::kInodes, clear), "its section inodes has 0 entries");
  check_ignored(changed(Section::kDirectories, clear), "its section directories has 0 entries");
  check_ignored(changed(Section::kDirectories, [](Bytes& bytes) { bytes.resize(24 * 5); }),
                "its section directories has 5 entries");
  check_ignored(changed(Section::kFiles, clear), "its section files has 0 entries");
  check_ignored(changed(Section::kFiles, [](Bytes& bytes) { bytes.resize(20); }),
                "its section files has 5 entries");
  check_ignored(changed(Section::kSet, [](Bytes& bytes) { bytes.resize(64); }),
                "its section set has 2 entries");
}

TEST_CASE("an index must lie in the last record, at a page boundary") {
  // The same bytes, but the header says that the last record begins elsewhere.
  const PackedIndex pack = indexed_pack(kRecords, flat_sections(kNames));
  for (const uint64_t offset : {pack.index_begin, pack.index_begin - 8, pack.index_begin + 8}) {
    Bytes file = pack.file;
    put(file, 12 + 4 * 4 + 8 * 3, offset);
    put(file, 0, crc32(view(file).subspan(4, 8 + 12 * 4)));
    check_ignored(file, "it begins at offset " + std::to_string(pack.index_begin));
  }
  // The index is shifted by eight bytes.
  const auto shift = [](const std::vector<Bytes>& records) {
    PackedIndex moved = indexed_pack(records, flat_sections(kNames));
    moved.file.insert(moved.index_begin, 8, '\0');
    return with_trailer(moved.file, [](auto& t) { t.pack_size += 8; });
  };
  Bytes shifted = shift(kRecords);
  check_ignored(shifted, "it begins at offset");
}

TEST_CASE("any changed byte of the index's end is seen at opening") {
  const PackedIndex pack = indexed_pack(kRecords, flat_sections(kNames));
  const size_t checksums_begin = pack.index_begin + pack.trailer.checked_size;
  const size_t trailer_begin = pack.file.size() - sizeof(IndexTrailer);
  for (size_t at = checksums_begin; at < pack.file.size(); ++at) {
    const bool is_padding = at >= checksums_begin + 4 && at < trailer_begin;
    const bool is_magic = at >= trailer_begin && at < trailer_begin + 8;
    if (is_padding) continue;
    Bytes file = pack.file;
    file[at] = static_cast<char>(file[at] ^ 0x10);
    const TemporaryFolder folder;
    const FfrecordShard shard(folder.write("p.ffr", file), IndexUse::kIfSound);
    CAPTURE(at);
    CHECK(shard.index() == nullptr);
    CHECK(shard.warning().empty() == is_magic);  // without its magic it is no index at all
  }
}

TEST_CASE("reads of a damaged block give an error, which names the section") {
  const auto names = many(10'000);
  PackedIndex pack = indexed_pack(names, flat_sections(names));
  pack.file[pack.index_begin + 100'000] ^= 1;  // in the second block of the inodes
  const Indexed opened(pack.file);
  CHECK(opened.value(2'000) == 1'999);
  CHECK(opened.value(9'000) == 8'999);
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS((void)opened.value(3'000),
                         doctest::Contains("p.ffr: damaged index (inodes): the checksum of 65536"),
                         ChecksumError);
  }
  CHECK_THROWS_AS(opened.index().verify(), ChecksumError);
}

TEST_CASE("a damaged header is found where it is read, whatever its own checksum says") {
  const auto names = many(20'000);
  Bytes file = indexed_pack(names, flat_sections(names)).file;
  const size_t count = names.size() + 1;
  SUBCASE("in the middle") {
    file[12 + 4 * count + 8 * 10'000] ^= 1;
    const Indexed opened(file);
    CHECK(opened.shard.extent(0).size == names[0].size());
    CHECK_THROWS_WITH_AS((void)opened.shard.extent(10'000),
                         doctest::Contains("p.ffr: damaged header (offsets): the checksum"),
                         ChecksumError);
  }
  SUBCASE("at its beginning: refused, as without an index") {
    const TemporaryFolder folder;
    file[20] ^= 1;
    CHECK_THROWS_WITH_AS(FfrecordShard(folder.write("p.ffr", file), IndexUse::kIfSound),
                         doctest::Contains("damaged header: its checksum is"), FormatError);
  }
  SUBCASE("the last record's checksum, which the index cannot know") {
    file[12 + 4 * (count - 1)] ^= 1;
    const Extent last = Indexed(file).shard.extent(count - 1);
    CHECK(last.crc32 != crc32(view(file).subspan(last.offset)));
  }
}

TEST_CASE("wrong extents under right checksums are refused") {
  const auto lying = [](uint64_t offset) {
    PackedIndex pack = indexed_pack(kRecords, flat_sections(kNames));
    put(pack.file, 12 + 4 * 4 + 8 * 2, offset);
    Sections sections = flat_sections(kNames);
    section(sections, Section::kHeader) = header_section(pack.file.substr(0, 60), 4);
    IndexTrailer trailer = pack.trailer;
    const Bytes index = index_bytes(sections, trailer);
    return pack.file.replace(pack.index_begin, index.size(), index);
  };
  for (const uint64_t offset : {uint64_t{0}, uint64_t{11}, uint64_t{59}, uint64_t{1} << 40,
                                uint64_t{1} << 63, UINT64_MAX}) {
    CAPTURE(offset);
    const Indexed opened(lying(offset));
    for (const uint64_t record : {1UL, 2UL}) {
      CHECK_THROWS_WITH_AS((void)opened.shard.extent(record),
                           doctest::Contains("damaged header: record"), FormatError);
    }
    CHECK(opened.shard.extent(0).size == 5);
  }
}

TEST_CASE("chunk_checksums() gives the checksums of a record's chunks") {
  const Bytes large = pattern((2 << 20) + 500'000, 3);
  const std::vector<Bytes> records{"small", large, "small", large};
  std::vector<uint32_t> expected;
  for (size_t at = 0; at < large.size(); at += kIndexChunkSize) {
    expected.push_back(crc32c(view(large.substr(at, kIndexChunkSize))));
  }
  const auto open = [&](const std::vector<ChunkedRecord>& chunked, size_t chunk_count,
                        const std::function<void(const FfrecordShard&)>& check) {
    Sections sections = flat_sections({"a", "b", "c", "d"});
    for (const auto& entry : chunked) append_le(section(sections, Section::kChunked), entry);
    for (size_t i = 0; i < chunk_count; ++i) {
      append_le(section(sections, Section::kChunks), expected[i % 3]);
    }
    check(Indexed(indexed_pack(records, sections).file).shard);
  };
  open({{1, 0}, {3, 3}}, 6, [&](const FfrecordShard& shard) {
    CHECK(shard.chunk_checksums(1) == expected);
    CHECK(shard.chunk_checksums(3) == expected);
    CHECK(shard.chunk_checksums(0).empty());
    CHECK(shard.chunk_checksums(4).empty());
  });
  open({{3, 0}}, 3, [&](const FfrecordShard& shard) {
    CHECK(shard.chunk_checksums(1).empty());
    CHECK(shard.chunk_checksums(3) == expected);
  });
  open({}, 0, [&](const FfrecordShard& shard) { CHECK(shard.chunk_checksums(1).empty()); });
  for (const uint64_t first : {uint64_t{1}, uint64_t{3}, uint64_t{1} << 62, UINT64_MAX}) {
    open({{1, first}}, 3, [&](const FfrecordShard& shard) {
      CHECK_THROWS_AS((void)shard.chunk_checksums(1), FormatError);
    });
  }
}

TEST_CASE("the index gives the set of its shard") {
  Sections sections = flat_sections(kNames);
  IndexSet set{};
  set.id[3] = std::byte{7};
  set.number = 2;
  set.count = 5;
  append_le(section(sections, Section::kSet), set);
  const auto found = Indexed(sections).index().set();
  REQUIRE(found);
  CHECK(found->id == set.id);
  CHECK(found->number == 2);
  CHECK(found->count == 5);
}

TEST_CASE("a pack that is overwritten or truncated while it is open gives errors") {
  const auto names = many(20'000);
  const PackedIndex pack = indexed_pack(names, flat_sections(names));
  const Indexed opened(pack.file);
  const FfrecordShard& shard = opened.shard;
  REQUIRE(opened.value(5) == 4);
  const Extent extent = shard.extent(9);
  // Another sound file of the same shape, whose records lie elsewhere.
  auto others = many(20'000);
  others[0] += "?";
  others[20] = "";
  overwrite(shard.file().path(), 0,
            indexed_pack(others, flat_sections(names)).file.substr(0, 1 << 20));
  CHECK(shard.extent(9).offset == extent.offset);  // from a page that was kept
  CHECK_THROWS_AS((void)shard.extent(900), ChecksumError);
  overwrite(shard.file().path(), 0, pack.file);
  CHECK(shard.extent(900).size == names[900].size());
  CHECK(opened.value(5) == 4);

  std::filesystem::resize_file(shard.file().path(), 100);
  CHECK(shard.extent(9).offset == extent.offset);
  CHECK_THROWS_AS((void)shard.extent(9'000), StorageError);
  CHECK(opened.value(5) == 4);
  CHECK_THROWS_AS((void)opened.value(500), StorageError);
  CHECK_THROWS_WITH_AS((void)opened.value(15'000),
                       doctest::Contains("cannot read the index (inodes)"), StorageError);
}

TEST_CASE("many threads read one index") {
  const auto names = many(20'000);
  const Indexed opened(indexed_pack(names, flat_sections(names)).file);
  std::atomic<int> wrong{0};
  in_threads(4, [&](uint32_t i) {
    for (uint64_t k = 0; k < 2'000; ++k) {
      const uint64_t record = (i * 7'919 + k * 31) % names.size();
      const uint64_t size = opened.shard.extent(record).size;
      if (opened.value(record + 1) != record || size != names[record].size()) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("an index with random damage gives right values, or errors") {
  const auto names = many(300);
  const PackedIndex pack = indexed_pack(names, flat_sections(names));
  const TemporaryFolder folder;
  const FfrecordShard sound(folder.write("sound.ffr", pack.file));
  Random random(9);
  size_t mapped_count = 0;
  const uint64_t rounds = seed_count() / 40;
  for (uint64_t round = 0; round < rounds; ++round) {
    Bytes file = pack.file;
    if (round % 2 == 0) {
      file = damaged(file, random);
    } else {  // keep the size
      for (size_t left = 1 + random() % 3; left > 0; --left) {
        const size_t within = std::min(file.size(), size_t{random() % 2 == 0 ? 4096U : 1U << 30});
        const size_t at = random() % within;
        file[random() % 2 == 0 ? at : file.size() - 1 - at] = static_cast<char>(random());
      }
    }
    const std::string path = folder.write("p.ffr", file);
    std::optional<FfrecordShard> shard;
    try {
      shard.emplace(path, IndexUse::kIfSound);
    } catch (const FormatError&) {
      continue;
    }
    if (shard->count() != sound.count()) continue;  // neither index nor checksum is left
    const IndexMap* const index = shard->index();
    if (index == nullptr) continue;
    ++mapped_count;
    for (uint64_t i = 0; i + 1 < sound.count(); ++i) {
      try {
        const Extent extent = shard->extent(i);
        REQUIRE(extent.offset == sound.extent(i).offset);
        REQUIRE(extent.size == sound.extent(i).size);
        REQUIRE(extent.crc32 == sound.extent(i).crc32);
        const auto inode = index->load<IndexInode>(Section::kInodes, 32 * (i + 1));
        REQUIRE(inode.value == i);
        REQUIRE(copy(*index, Section::kNames, inode.name_offset, inode.name_size) == names[i]);
      } catch (const ChecksumError&) {
      }
    }
  }
  CHECK(mapped_count > rounds / 20);
}
