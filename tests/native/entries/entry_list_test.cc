// EntryList and EntrySlice: which entries are packed, which record a file becomes, and which
// entries each pack shows.

#include "entries/entry_list.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "entries/entry_files.h"
#include "entries/record_costs.h"
#include "entry_lists.h"
#include "io/error.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

std::vector<std::string> record_paths(const EntryList& list) {
  std::vector<std::string> paths;
  for (uint32_t record = 0; record < list.record_count(); ++record) {
    paths.push_back(list.path(list.file(list.file_of(record))));
  }
  return paths;
}

// Return all paths, in the order of the slots.
std::vector<std::string> slot_paths(const IndexEntries& source) {
  std::vector<std::string> paths;
  for (uint32_t slot = 0; slot < source.slot_count(); ++slot) {
    const IndexEntry entry = source.entry(slot);
    std::string path(entry.name);
    if (slot > 0 && entry.parent > 0) path = paths[entry.parent] + "/" + path;
    paths.push_back(path);
  }
  return paths;
}

using Paths = std::vector<std::string>;

}  // namespace

TEST_CASE("numbering by path follows a walk, numbering by size puts the smallest first") {
  EntryList list = small_list();
  CHECK(record_paths(list) == Paths{"a", "d/b", "z"});
  list.number_by_size();
  CHECK(record_paths(list) == Paths{"z", "a", "d/b"});
  const std::vector<uint32_t> first{1};
  list.number_by(first);
  CHECK(record_paths(list) == Paths{"d/b", "a", "z"});
  CHECK(list.byte_count() == 12);
}

TEST_CASE("a folder's name sorts without the slash behind it") {
  EntryList list;
  const uint32_t folder = list.add_folder(0, "a", 0755, 0);
  list.add_file(folder, "x", 0, kMode, 0);
  list.add_file(0, "a.b", 0, kMode, 0);
  list.number_by_path();
  CHECK(record_paths(list) == Paths{"a/x", "a.b"});
}

TEST_CASE("names sort by their bytes, however long their common prefix is") {
  std::mt19937 random(1);
  for (const size_t common : {0, 1, 7, 8, 9, 200}) {
    EntryList list;
    Paths names;
    const std::string begin(common, 'c');
    // Shorter than a sort key, as long, and longer; with bytes below and above 0x80.
    for (const char* end : {"", "a", "\xc3\xbf", "aaaaaaaa", "aaaaaaab", "aaaaaaaa\x01", "\x01"}) {
      if (common + std::string(end).size() > 0) names.push_back(begin + end);
    }
    std::ranges::shuffle(names, random);
    for (const std::string& name : names) list.add_file(0, name, 0, kMode, 0);
    list.number_by_path();
    std::ranges::sort(names);
    CHECK(record_paths(list) == names);
    for (const std::string& name : names) CHECK(list.path(list.file(*list.find(name))) == name);
    CHECK(!list.find(begin + "no").has_value());
  }
}

TEST_CASE("find() finds files by path and neither folders nor links") {
  const EntryList list = small_list();
  CHECK(list.find("d/b") == 1);
  CHECK(list.find("z") == 0);
  for (const char* path : {"", "d", "d/", "/d/b", "d//b", "d/l", "d/b/x", "a/b", "c", "d/x"}) {
    CHECK(!list.find(path).has_value());
  }
}

TEST_CASE("entries that no folder can hold are refused") {
  EntryList list;
  using Bad = std::invalid_argument;
  const std::string long_name(256, 'x');
  const std::string_view nul("a\0b", 3);
  for (const std::string_view name :
       {std::string_view(), std::string_view("."), std::string_view(".."), std::string_view("a/b"),
        nul, std::string_view(long_name), std::string_view("\xff"),
        std::string_view("\xed\xb2\x80"),  // a lone surrogate
        std::string_view("\xc0\xaf")}) {
    CHECK_THROWS_AS(list.add_file(0, name, 0, kMode, 0), Bad);
    CHECK_THROWS_AS(list.add_folder(0, name, kMode, 0), Bad);
    CHECK_THROWS_AS(list.add_link(0, name, "x", 0), Bad);
  }
  CHECK_THROWS_AS(list.add_file(1, "x", 0, kMode, 0), Bad);
  CHECK_THROWS_AS(list.add_link(0, "l", "", 0), Bad);
  CHECK_THROWS_AS(list.add_link(0, "l", std::string(4096, 't'), 0), Bad);
  CHECK_THROWS_AS(list.add_link(0, "l", nul, 0), Bad);
  CHECK_THROWS_AS(list.drop_folder(0), Bad);
  list.add_link(0, "l", std::string(4095, 't'), 0);
  list.add_file(0, std::string(255, 'x'), 0, kMode, 0);
  CHECK(list.node_count() == 3);
}

TEST_CASE("the error for two entries of the same name gives their path") {
  EntryList list;
  const uint32_t folder = list.add_folder(0, "d", 0755, 0);
  list.add_file(folder, "x", 0, kMode, 0);
  SUBCASE("two files") { list.add_file(folder, "x", 0, kMode, 0); }
  SUBCASE("a file and a folder") { list.add_folder(folder, "x", 0755, 0); }
  SUBCASE("a file and a link") { list.add_link(folder, "x", "y", 0); }
  CHECK_THROWS_WITH_AS(list.number_by_path(), "d/x: the same name twice in one directory",
                       PackError);
}

TEST_CASE("folders are at most 1024 deep") {
  EntryList list;
  uint32_t folder = 0;
  for (int depth = 0; depth < 1024; ++depth) folder = list.add_folder(folder, "d", 0755, 0);
  CHECK_THROWS_AS(list.add_folder(folder, "d", 0755, 0), PackError);
  list.add_file(folder, "x", 0, kMode, 0);
  list.number_by_path();
  CHECK(record_paths(list)[0].size() == 2 * 1024 + 1);
}

TEST_CASE("the last folder can be dropped while it is empty") {
  EntryList list;
  const uint32_t outer = list.add_folder(0, "outer", 0755, 0);
  const uint32_t inner = list.add_folder(outer, "inner", 0755, 0);
  CHECK_THROWS_AS(list.drop_folder(outer), std::invalid_argument);
  list.drop_folder(inner);
  list.drop_folder(outer);
  CHECK(list.folder_count() == 1);
  const uint32_t full = list.add_folder(0, "full", 0755, 0);
  list.add_file(full, "x", 0, kMode, 0);
  CHECK_THROWS_AS(list.drop_folder(full), std::invalid_argument);
}

TEST_CASE("files can share one record under several paths") {
  EntryList list = small_list();
  const uint32_t copy = list.add_file(0, "b", 5, kMode, 0);
  list.share(copy, 1);
  CHECK(!list.is_numbered());
  list.number_by_path();
  CHECK(record_paths(list) == Paths{"a", "d/b", "z"});
  CHECK(list.file(copy).detail == list.file(1).detail);
  const uint32_t other = list.add_file(0, "c", 5, kMode, 0);
  CHECK_THROWS_AS(list.share(other, other), std::invalid_argument);
  CHECK_THROWS_AS(list.share(other, 0), std::invalid_argument);  // a file of another size
  list.share(other, copy);
  CHECK_THROWS_AS(list.number_by_path(), std::invalid_argument);  // `copy` is itself a copy
  CHECK(!list.is_numbered());
}

TEST_CASE("an order that names a file twice, or a file that does not exist, is refused") {
  EntryList list = small_list();
  CHECK_THROWS_AS(list.number_by(std::vector<uint32_t>{1, 1}), std::invalid_argument);
  CHECK_THROWS_AS(list.number_by(std::vector<uint32_t>{3}), std::invalid_argument);
}

TEST_CASE("a record's cost includes its folders, and the entries that go with it") {
  EntryList list = small_list();
  CHECK(record_costs(list, 0, 3) == std::vector<uint64_t>{
                                        file_cost(4, "x") + folder_cost(0, 0),
                                        file_cost(5, "x") + 2 * folder_cost(1, 1) + link_cost(1, 4),
                                        file_cost(3, "x") + folder_cost(0, 0) + folder_cost(2, 3),
                                    });
  CHECK(record_costs(list, 1, 1)[0] == record_costs(list, 0, 3)[1]);
  list.number_by_size();  // the order is z, a, d/b
  CHECK(record_costs(list, 1, 1)[0] == file_cost(4, "x"));
  CHECK(file_cost(3 << 20, "x") > file_cost(0, "x") + (3 << 20) + 8);  // plus checksums of chunks
}

TEST_CASE("a selection of everything has every entry, breadth-first") {
  const EntryList list = small_list();
  const EntrySlice all = all_of(list);
  CHECK(slot_paths(all) == Paths{"", "a", "d", "z", "d/b", "d/e", "d/l"});
  CHECK(all.directory_count() == 3);
  CHECK(all.entry(6).target == "../a");
  CHECK(all.entry(1).mode == kMode);
  CHECK(all.entry(1).mtime_ns == kTime);
  CHECK(all.entry(4).record == 1);
}

TEST_CASE("a selection of some records has their folders, and the entries that go with them") {
  EntryList list = small_list();
  CHECK(slot_paths(EntrySlice(list, 0, 1)) == Paths{"", "a"});
  // The link goes with the first file in its folder, the empty folder with the file behind it.
  CHECK(slot_paths(EntrySlice(list, 1, 1)) == Paths{"", "d", "d/b", "d/l"});
  CHECK(slot_paths(EntrySlice(list, 2, 1)) == Paths{"", "d", "z", "d/e"});
  CHECK(slot_paths(EntrySlice(list, 0, 0)) == Paths{""});
  const EntrySlice last(list, 1, 2);
  CHECK(last.entry(3).record == 0);  // each pack numbers its records from 0
  CHECK(last.entry(2).record == 1);
  list.number_by_size();  // the order is z, a, d/b
  CHECK(slot_paths(EntrySlice(list, 0, 2)) == Paths{"", "a", "d", "z", "d/e"});
}

TEST_CASE("an entry that no file follows goes with the last record or into a pack without any") {
  EntryList list;
  list.add_link(list.add_folder(0, "d", 0755, 0), "l", "x", 0);
  list.number_by_path();
  CHECK(slot_paths(EntrySlice(list, 0, 0)) == Paths{"", "d", "d/l"});
  list.add_file(0, "a", 0, kMode, 0);
  list.add_file(0, "b", 1, kMode, 0);
  list.number_by_path();
  CHECK(slot_paths(EntrySlice(list, 0, 1)) == Paths{"", "a"});
  CHECK(slot_paths(EntrySlice(list, 1, 1)) == Paths{"", "b", "d", "d/l"});
}

TEST_CASE("normalize() gives all entries one time and plain permissions") {
  EntryList list = small_list();
  list.normalize(7);
  const EntrySlice all = all_of(list);
  for (uint32_t slot = 0; slot < all.slot_count(); ++slot) CHECK(all.entry(slot).mtime_ns == 7);
  CHECK(all.entry(1).mode == 0644);
  CHECK(all.entry(2).mode == 0755);  // a folder
  CHECK(all.entry(4).mode == 0755);  // an executable file
  CHECK(all.entry(6).mode == 0777);  // a link
  // A source file is still compared with the time that was found for it, not with 7.
  CHECK(EntryFiles(list, "/source", LinkRule::kFollow, 0, 3).file(0).mtime_ns == kTime);
  CHECK(EntryFiles(list, "/source", LinkRule::kFollow, 0, 3).file(1).path == "/source/d/b");
}
