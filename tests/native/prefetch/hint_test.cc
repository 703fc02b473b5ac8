// native/volume: which record a client's text names: paths, numbers, and texts that name nothing.

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "damage.h"
#include "example/example_tree.h"
#include "prefetch/hint.h"
#include "scratch.h"
#include "tree/flat_tree.h"
#include "tree/tree_builder.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::string_literals;

namespace {

// /a.jpg (record 1), /dir/b.jpg (0), /dir/deep/c (2), /empty; the index is record 3.
std::unique_ptr<PickleTree> pickle_tree() {
  TreeBuilder builder("packed.ffr", 3);
  const auto root = builder.add_directory();
  const auto dir = builder.add_directory();
  const auto deep = builder.add_directory();
  const auto empty = builder.add_directory();
  builder.place_file(root, builder.add_name("a.jpg"), 1);
  builder.place_directory(root, builder.add_name("dir"), dir);
  builder.place_directory(root, builder.add_name("empty"), empty);
  builder.place_file(dir, builder.add_name("b.jpg"), 0);
  builder.place_directory(dir, builder.add_name("deep"), deep);
  builder.place_file(deep, builder.add_name("c"), 2);
  builder.place_file(deep, builder.add_name(std::string(255, 'n')), 2);
  builder.place_file(deep, builder.add_name("7"), 2);
  return builder.finish();
}

constexpr uint64_t kFolderRecords = 4;

std::optional<Hint> of_folder(const Tree& tree, std::string_view text) {
  return find_hint(tree, kFolderRecords, text);
}

// Texts that name no file, in any tree.
const std::vector<std::string> kNothing = {"",
                                           " ",
                                           "/",
                                           "//",
                                           "/.",
                                           "/./",
                                           "/..",
                                           "/../",
                                           "..",
                                           ".",
                                           "-1",
                                           "+1",
                                           " 1",
                                           "1 ",
                                           "1.0",
                                           "0x1",
                                           "1e3",
                                           "18446744073709551615",
                                           "18446744073709551616",
                                           "99999999999999999999999999",
                                           "1/",
                                           "1\n",
                                           "a.jpg",
                                           "dir/b.jpg",
                                           "\x80",
                                           "/\x80",
                                           "/" + std::string(300, 'n'),
                                           "/" + std::string(8000, '/'),
                                           "/../a.jpg",
                                           "/dir/../a.jpg",
                                           std::string(8191, '9'),
                                           "/" + std::string(8000, 'x'),
                                           "1\0"s,
                                           "/a.jpg\0"s,
                                           "\0"s};

}  // namespace

TEST_CASE("paths and numbers of files are hints in a packed folder") {
  const auto tree = pickle_tree();
  const auto expect = [&](std::string_view text, uint64_t record, std::string_view path) {
    CAPTURE(text);
    const auto hint = of_folder(*tree, text);
    REQUIRE(hint);
    CHECK(hint->record == record);
    CHECK(tree->path(hint->ino) == path);
    CHECK_FALSE(hint->is_of_all);
  };
  expect("/a.jpg", 1, "a.jpg");
  expect("/dir/b.jpg", 0, "dir/b.jpg");
  expect("/dir/deep/c", 2, "dir/deep/c");
  expect("//dir///deep//c", 2, "dir/deep/c");
  expect("/./dir/./b.jpg", 0, "dir/b.jpg");
  expect("/dir/deep/" + std::string(255, 'n'), 2, "dir/deep/" + std::string(255, 'n'));
  expect("/dir/deep/7", 2, "dir/deep/7");
  expect("0", 0, "dir/b.jpg");
  expect("1", 1, "a.jpg");
  expect("0000000001", 1, "a.jpg");
  expect("2", 2, "dir/deep/7");  // of several names, the first in the listing
}

TEST_CASE("texts that name no file of a packed folder are no hints") {
  const auto tree = pickle_tree();
  for (const std::string& text : kNothing) {
    CAPTURE(text);
    CHECK_FALSE(of_folder(*tree, text));
  }
  // Folders, and paths that do not exist; the index.
  for (const char* text : {"/dir", "/dir/", "/empty", "/empty/x", "/dir/deep", "/dir/deep/cc",
                           "/a.jpg/x", "/A.JPG", "/a", "/a.jpgx", "3", "4"}) {
    CAPTURE(text);
    CHECK_FALSE(of_folder(*tree, text));
  }
}

TEST_CASE("names and numbers of records are hints in a plain file of records") {
  const FlatTree tree(1000);
  const auto find = [&](std::string_view text) { return find_hint(tree, 1000, text); };
  CHECK(find("/000000012")->record == 12);
  CHECK(find("/000000012")->ino == 14);
  CHECK(find("12")->record == 12);
  CHECK(find("12")->ino == 14);
  CHECK(find("999")->record == 999);
  for (const char* text : {"1000", "/000001000", "/12", "/0000000012", "/00000001x", "/000000012/x",
                           "/000000012/record.bin"}) {
    CAPTURE(text);
    CHECK_FALSE(find(text));
  }
  for (const std::string& text : kNothing) {
    CAPTURE(text);
    CHECK_FALSE(find(text));
  }
}

TEST_CASE("a hint in TFRecord names a record, and whether all of it is wanted") {
  const ExampleTree tree(1000);
  const auto find = [&](std::string_view text) { return find_hint(tree, 1000, text); };
  const auto expect = [&](std::string_view text, uint64_t record, bool is_of_all) {
    CAPTURE(text);
    const auto hint = find(text);
    REQUIRE(hint);
    CHECK(hint->record == record);
    CHECK(hint->ino == 0);
    CHECK(hint->is_of_all == is_of_all);
  };
  expect("/000000012", 12, false);
  expect("/000000012/", 12, false);
  expect("12", 12, false);
  expect("/000000999/record.bin", 999, true);
  expect("/000000999//example.json", 999, true);
  expect("/000000999/image/record.bin", 999, false);
  expect("//000000000//image/encoded.jpg", 0, false);
  expect("/./000000000/../x", 0, false);  // the rest of the path is not looked up
  for (const char* text : {"1000", "/000001000", "/12", "/image", "/000000012x"}) {
    CAPTURE(text);
    CHECK_FALSE(find(text));
  }
  for (const std::string& text : kNothing) {
    CAPTURE(text);
    CHECK_FALSE(find(text));
  }
}

TEST_CASE("any bytes name nothing, or a file of the tree") {
  Random random(1);
  const auto tree = pickle_tree();
  const FlatTree records(20);
  const ExampleTree examples(20);
  const std::vector<Bytes> seeds = {"/dir/deep/c", "/a.jpg", "17", "/000000017/record.bin"};
  for (int i = 0; i < 20'000; ++i) {
    const Bytes text = damaged(seeds[random() % seeds.size()], random);
    if (const auto hint = of_folder(*tree, text)) {
      const auto inode = tree->inode(hint->ino);
      REQUIRE(inode);
      CHECK_FALSE(inode->is_directory());
      CHECK(inode->record == hint->record);
    }
    if (const auto hint = find_hint(records, 20, text)) {
      CHECK(hint->record < 20);
      CHECK(hint->ino == hint->record + 2);
    }
    if (const auto hint = find_hint(examples, 20, text)) {
      CHECK(hint->record < 20);
      CHECK(hint->ino == 0);
    }
  }
}
