// Manifest and ManifestSlice: what is packed, which record it becomes, and what of it a
// pack shows.

#include "manifest/manifest.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "manifests.h"
#include "io/error.h"
#include "manifest/manifest_files.h"
#include "manifest/manifest_runs.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

std::vector<std::string> record_paths(const Manifest& list) {
  std::vector<std::string> paths;
  for (uint32_t record = 0; record < list.record_count(); ++record) {
    paths.push_back(list.path(list.file(list.file_of(record))));
  }
  return paths;
}

// All paths, in the order of the slots.
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

TEST_CASE("records by path are in the order of a walk, by size the smallest first") {
  Manifest list = small_list();
  CHECK(record_paths(list) == Paths{"a", "d/b", "z"});
  list.number_by_size();
  CHECK(record_paths(list) == Paths{"z", "a", "d/b"});
  const std::vector<uint32_t> first{1};
  list.number_by(first);
  CHECK(record_paths(list) == Paths{"d/b", "a", "z"});
  CHECK(list.byte_count() == 12);
}

TEST_CASE("a folder's name sorts without the slash behind it") {
  Manifest list;
  const uint32_t folder = list.add_folder(0, "a", 0755, 0);
  list.add_file(folder, "x", 0, kMode, 0);
  list.add_file(0, "a.b", 0, kMode, 0);
  list.number_by_path();
  CHECK(record_paths(list) == Paths{"a/x", "a.b"});
}

TEST_CASE("names sort by their bytes, however long what they have in common is") {
  std::mt19937 random(1);
  for (const size_t common : {0, 1, 7, 8, 9, 200}) {
    Manifest list;
    Paths names;
    const std::string begin(common, 'c');
    // Shorter than a key, as long, longer; with bytes of both halves.
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

TEST_CASE("files are found by path; folders and links are none") {
  const Manifest list = small_list();
  CHECK(list.find("d/b") == 1);
  CHECK(list.find("z") == 0);
  for (const char* path : {"", "d", "d/", "/d/b", "d//b", "d/l", "d/b/x", "a/b", "c", "d/x"}) {
    CHECK(!list.find(path).has_value());
  }
}

TEST_CASE("what no folder can hold is refused") {
  Manifest list;
  using Bad = std::invalid_argument;
  const std::string long_name(256, 'x');
  const std::string_view nul("a\0b", 3);
  for (const std::string_view name : {std::string_view(), std::string_view("."),
                                      std::string_view(".."), std::string_view("a/b"), nul,
                                      std::string_view(long_name), std::string_view("\xff"),
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

TEST_CASE("a name that stands twice in a folder is named") {
  Manifest list;
  const uint32_t folder = list.add_folder(0, "d", 0755, 0);
  list.add_file(folder, "x", 0, kMode, 0);
  SUBCASE("two files") { list.add_file(folder, "x", 0, kMode, 0); }
  SUBCASE("a file and a folder") { list.add_folder(folder, "x", 0755, 0); }
  SUBCASE("a file and a link") { list.add_link(folder, "x", "y", 0); }
  CHECK_THROWS_WITH_AS(list.number_by_path(), "d/x: the same name twice in one directory",
                       PackError);
}

TEST_CASE("folders are at most 1024 deep") {
  Manifest list;
  uint32_t folder = 0;
  for (int depth = 0; depth < 1024; ++depth) folder = list.add_folder(folder, "d", 0755, 0);
  CHECK_THROWS_AS(list.add_folder(folder, "d", 0755, 0), PackError);
  list.add_file(folder, "x", 0, kMode, 0);
  list.number_by_path();
  CHECK(record_paths(list)[0].size() == 2 * 1024 + 1);
}

TEST_CASE("the last folder can be taken back while it is empty") {
  Manifest list;
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

TEST_CASE("shared records: one record, several paths") {
  Manifest list = small_list();
  const uint32_t copy = list.add_file(0, "b", 5, kMode, 0);
  list.share(copy, 1);
  CHECK(!list.is_numbered());
  list.number_by_path();
  CHECK(record_paths(list) == Paths{"a", "d/b", "z"});
  CHECK(list.file(copy).detail == list.file(1).detail);
  const uint32_t other = list.add_file(0, "c", 5, kMode, 0);
  CHECK_THROWS_AS(list.share(other, other), std::invalid_argument);
  CHECK_THROWS_AS(list.share(other, 0), std::invalid_argument);  // of another size
  list.share(other, copy);
  CHECK_THROWS_AS(list.number_by_path(), std::invalid_argument);  // which is itself a copy
  CHECK(!list.is_numbered());
}

TEST_CASE("an order that names a file twice, or one that is not there, is refused") {
  Manifest list = small_list();
  CHECK_THROWS_AS(list.number_by(std::vector<uint32_t>{1, 1}), std::invalid_argument);
  CHECK_THROWS_AS(list.number_by(std::vector<uint32_t>{3}), std::invalid_argument);
}

TEST_CASE("runs cover all records, in their order, about equal in bytes") {
  std::mt19937 random(2);
  for (const uint32_t files : {0U, 1U, 2U, 7U, 1000U}) {
    Manifest list;
    uint64_t largest = 0;
    for (uint32_t file = 0; file < files; ++file) {
      const uint64_t size = random() % 100'000;
      largest = std::max(largest, size);
      list.add_file(0, std::to_string(file), size, kMode, 0);
    }
    list.number_by_path();
    const auto bytes_of = [&](const std::pair<uint32_t, uint32_t>& run) {
      uint64_t bytes = 0;
      for (uint32_t i = 0; i < run.second; ++i) {
        bytes += list.file(list.file_of(run.first + i)).value;
      }
      return bytes;
    };
    const auto check_cover = [&](const ManifestRuns& runs) {
      uint32_t next = 0;
      for (const auto& [first, count] : runs) {
        CHECK(first == next);
        CHECK((count > 0 || files == 0));
        next = first + count;
      }
      CHECK(next == files);
    };
    for (const uint32_t count : {1U, 2U, 3U, 8U, 64U}) {
      const auto runs = split_by_count(list, count);
      CHECK(runs.size() == std::max(1U, std::min(count, files)));
      check_cover(runs);
      for (const auto& run : runs) {
        if (files < 1000) break;
        const uint64_t part = list.byte_count() / count;
        CHECK(bytes_of(run) < part + largest);
        CHECK(bytes_of(run) + largest > part);
      }
    }
    for (const uint64_t size : {uint64_t{0}, uint64_t{150'000}, UINT64_MAX}) {
      const auto runs = split_by_size(list, size);
      check_cover(runs);
      for (const auto& run : runs) CHECK((bytes_of(run) <= size || run.second == 1));
      if (size == UINT64_MAX) CHECK(runs.size() == 1);
    }
  }
}

TEST_CASE("a selection of everything has every entry, breadth-first") {
  const Manifest list = small_list();
  const ManifestSlice all = all_of(list);
  CHECK(slot_paths(all) == Paths{"", "a", "d", "z", "d/b", "d/e", "d/l"});
  CHECK(all.directory_count() == 3);
  CHECK(all.entry(6).target == "../a");
  CHECK(all.entry(1).mode == kMode);
  CHECK(all.entry(1).mtime_ns == kTime);
  CHECK(all.entry(4).record == 1);
}

TEST_CASE("a selection of some records has the folders on their way; the rest goes to one") {
  const Manifest list = small_list();
  CHECK(slot_paths(ManifestSlice(list, 0, 1, false)) == Paths{"", "a"});
  CHECK(slot_paths(ManifestSlice(list, 1, 1, false)) == Paths{"", "d", "d/b"});
  CHECK(slot_paths(ManifestSlice(list, 1, 2, false)) == Paths{"", "d", "z", "d/b"});
  CHECK(slot_paths(ManifestSlice(list, 0, 1, true)) == Paths{"", "a", "d", "d/e", "d/l"});
  CHECK(slot_paths(ManifestSlice(list, 0, 0, false)) == Paths{""});
  const ManifestSlice second(list, 1, 2, false);
  CHECK(second.entry(3).record == 0);  // each pack counts from 0
  CHECK(second.entry(2).record == 1);
}

TEST_CASE("a list can be shown with one time and plain permissions") {
  Manifest list = small_list();
  list.normalize(7);
  const ManifestSlice all = all_of(list);
  for (uint32_t slot = 0; slot < all.slot_count(); ++slot) CHECK(all.entry(slot).mtime_ns == 7);
  CHECK(all.entry(1).mode == 0644);
  CHECK(all.entry(2).mode == 0755);  // a folder
  CHECK(all.entry(4).mode == 0755);  // what can be run
  CHECK(all.entry(6).mode == 0777);  // a link
  // What is read is still held to what was found.
  CHECK(ManifestFiles(list, "/source", 0, 3).file(0).mtime_ns == kTime);
  CHECK(ManifestFiles(list, "/source", 0, 3).file(1).path == "/source/d/b");
}
