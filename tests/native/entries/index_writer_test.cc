// append_index_record, write_index and write_sidecar: what the readers of the index see.
// tests/folder/test_mapped_index.py tests that the bytes are those of the format page.

#include "entries/index_writer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "entry_lists.h"
#include "io/error.h"
#include "open/sidecar_writer.h"
#include "pickle/index_record.h"
#include "record/ffrecord_shard.h"
#include "record/writer.h"
#include "tree/mapped_tree.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

// Writes a pack of that list, its files filled with a pattern. Without `mapped` it has only the
// index of the reference implementation.
std::string write_pack(const TemporaryFolder& folder, const EntryList& list, bool mapped = true) {
  const std::string path = folder / "x.ffr";
  Writer writer(path, uint64_t{list.record_count()} + 1);
  for (uint32_t record = 0; record < list.record_count(); ++record) {
    writer.append(view(pattern(list.file(list.file_of(record)).value, record)));
  }
  const EntrySlice all = all_of(list);
  if (mapped) {
    append_index_record(writer, all,
                        IndexSet{.id = {std::byte{7}}, .number = 2, .count = 5, .zero = 0});
  } else {
    writer.append(view(std::string(kFolderMagic) + pickle_of(all)));
  }
  writer.finish();
  return path;
}

void check_small_tree(const IndexMap& index, bool with_all) {
  const MappedTree tree(index);
  CHECK(tree.file_count() == 3);
  CHECK(tree.directory_count() == 3);
  const Ino d = tree.lookup(kRootIno, "d");
  const auto folder = tree.inode(d);
  REQUIRE(folder.has_value());
  CHECK(folder->entry_count == (with_all ? 3 : 2));
  CHECK(folder->subdirectory_count == 1);
  const Ino b = tree.lookup(d, "b");
  CHECK(tree.inode(b)->record == 1);
  CHECK(tree.file_of(1) == b);
  CHECK(tree.path(b) == "d/b");
  CHECK(tree.file_of(3) == 0);  // no name: record 3 is the index
  if (with_all) {
    CHECK(folder->mode == 0750);
    CHECK(folder->mtime_ns == 1);
    CHECK(tree.inode(b)->mode == 0755);
    CHECK(tree.target(tree.lookup(d, "l")) == "../a");
    CHECK(tree.inode(tree.lookup(kRootIno, "a"))->mtime_ns == kTime);
  } else {
    CHECK(tree.lookup(d, "l") == 0);
    CHECK(!folder->mode.has_value());
    CHECK(!tree.inode(b)->mtime_ns.has_value());
  }
  CHECK(tree.list(kRootIno, 0, 9).size() == 3);
}

EntryList list_with_large_files() {
  EntryList list;
  list.add_file(0, "exactly", 1 << 20, kMode, kTime);
  list.add_file(0, "large", (3 << 20) + 1, kMode, kTime);
  list.add_file(0, "larger by one", (1 << 20) + 1, kMode, kTime);
  list.number_by_path();
  return list;
}

void check_chunks(const FfrecordShard& shard) {
  CHECK(shard.chunk_checksums(0).empty());
  for (const auto& [record, size] : {std::pair(1, (3 << 20) + 1), std::pair(2, (1 << 20) + 1)}) {
    const Bytes data = pattern(static_cast<size_t>(size), static_cast<uint32_t>(record));
    std::vector<uint32_t> expected;
    for (size_t at = 0; at < data.size(); at += 1 << 20) {
      expected.push_back(crc32c(view(data.substr(at, 1 << 20))));
    }
    CHECK(shard.chunk_checksums(static_cast<uint64_t>(record)) == expected);
  }
}

}  // namespace

TEST_CASE("a pack's own index is found, and has the entries of the list") {
  const TemporaryFolder folder;
  const EntryList list = small_list();
  const FfrecordShard shard(write_pack(folder, list), IndexUse::kIfSound);
  REQUIRE(shard.index() != nullptr);
  CHECK(shard.warning().empty());
  CHECK(!shard.index()->is_sidecar());
  check_small_tree(*shard.index(), true);
  const auto set = shard.index()->set();
  REQUIRE(set.has_value());
  CHECK(set->number == 2);
  CHECK(set->count == 5);
  CHECK(set->id[0] == std::byte{7});
  for (uint64_t record = 0; record < 3; ++record) {
    CHECK(shard.extent(record).size ==
          list.file(list.file_of(static_cast<uint32_t>(record))).value);
  }
}

TEST_CASE("a sidecar made from a pickle has the same tree, except for what a pickle cannot hold") {
  const TemporaryFolder folder;
  const std::string pack = write_pack(folder, small_list(), false);
  CHECK(FfrecordShard(pack, IndexUse::kIfSound).index() == nullptr);
  Counters counters;
  write_sidecar(pack, pack + ".idx", false, counters);
  const FfrecordShard shard(pack, IndexUse::kIfSound);
  REQUIRE(shard.index() != nullptr);
  CHECK(shard.index()->is_sidecar());
  check_small_tree(*shard.index(), false);
  CHECK(!shard.index()->set().has_value());
}

TEST_CASE("large records have checksums of their chunks") {
  const TemporaryFolder folder;
  SUBCASE("in a pack") {
    const std::string pack = write_pack(folder, list_with_large_files());
    check_chunks(FfrecordShard(pack, IndexUse::kIfSound));
  }
  SUBCASE("in a sidecar, if requested") {
    const std::string pack = write_pack(folder, list_with_large_files(), false);
    Counters counters;
    write_sidecar(pack, pack + ".idx", false, counters);
    CHECK(FfrecordShard(pack, IndexUse::kIfSound).chunk_checksums(1).empty());
    write_sidecar(pack, pack + ".idx", true, counters);
    check_chunks(FfrecordShard(pack, IndexUse::kIfSound));
  }
}

TEST_CASE("no sidecar is made for damaged records, nor for a file that is no packed folder") {
  const TemporaryFolder folder;
  const std::string pack = write_pack(folder, list_with_large_files(), false);
  flip_byte(pack, FfrecordShard(pack).extent(1).offset + 5);
  Counters counters;
  CHECK_THROWS_AS(write_sidecar(pack, pack + ".idx", true, counters), ChecksumError);
  CHECK(!std::filesystem::exists(pack + ".idx"));
  const std::string plain = folder.write("plain.ffr", ffrecord({"some record", "another record"}));
  CHECK_THROWS_AS(write_sidecar(plain, plain + ".idx", false, counters), FormatError);
  CHECK(!std::filesystem::exists(plain + ".idx"));
}

TEST_CASE("an index whose sections are longer than one block has all entries") {
  const TemporaryFolder folder;
  EntryList list;
  constexpr uint32_t kFolders = 300;
  for (uint32_t i = 0; i < kFolders; ++i) {
    const uint32_t inner = list.add_folder(0, "folder " + std::to_string(i), 0700, i);
    for (uint32_t k = 0; k < i % 60; ++k) {
      list.add_file(inner, "file " + std::to_string(k), k % 3, kMode, k);
    }
  }
  list.number_by_path();
  const FfrecordShard shard(write_pack(folder, list), IndexUse::kIfSound);
  REQUIRE(shard.index() != nullptr);
  const MappedTree tree(*shard.index());
  CHECK(tree.file_count() == list.file_count());
  CHECK(tree.directory_count() == kFolders + 1);
  for (uint32_t record = 0; record < list.record_count(); ++record) {
    const EntryList::Entry& file = list.file(list.file_of(record));
    const Ino ino = tree.file_of(record);
    REQUIRE(tree.path(ino) == list.path(file));
    REQUIRE(tree.inode(ino)->mtime_ns == file.mtime_ns);
  }
}
