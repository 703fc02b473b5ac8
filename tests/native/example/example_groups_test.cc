// native/example, the tree of all records in groups, compared with a plain list.

#include <doctest/doctest.h>

#include <random>

#include "example_folders.h"
#include "prefetch/hint.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

struct Expected {
  std::string group;
  std::string name;
  Ino group_ino;
};

std::string number(uint64_t value) {
  const std::string digits = std::to_string(value);
  return std::string(9 - digits.size(), '0') + digits;
}

// Return for each record where it must be.
std::vector<Expected> records_of(const std::vector<ExampleGroup>& groups) {
  std::vector<Expected> records;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (uint64_t i = 0; i < groups[g].record_count; ++i) {
      records.push_back({.group = groups[g].name, .name = number(i), .group_ino = 2 + g});
    }
  }
  return records;
}

void check_root(const ExampleTree& tree, const std::vector<ExampleGroup>& groups) {
  REQUIRE(tree.inode(kRootIno)->entry_count == groups.size());
  REQUIRE(tree.inode(kRootIno)->subdirectory_count == groups.size());
  REQUIRE(tree.name(kRootIno).empty());
  const auto entries = tree.list(kRootIno, 0, UINT64_MAX);
  REQUIRE(entries.size() == groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    REQUIRE(entries[g].name == groups[g].name);
    REQUIRE(entries[g].ino == 2 + g);
    REQUIRE(tree.lookup(kRootIno, groups[g].name) == 2 + g);
    REQUIRE(tree.path(2 + g) == groups[g].name);
    REQUIRE(tree.inode(2 + g)->parent == kRootIno);
    REQUIRE(tree.inode(2 + g)->is_directory());
    REQUIRE(tree.inode(2 + g)->entry_count == groups[g].record_count);
    REQUIRE_FALSE(tree.record_of(2 + g));
    REQUIRE(tree.lookup(2 + g, number(groups[g].record_count)) == 0);
    REQUIRE(tree.list(2 + g, 0, UINT64_MAX).size() == groups[g].record_count);
    REQUIRE(tree.list(kRootIno, g, 1).front().name == groups[g].name);
  }
  REQUIRE(tree.list(kRootIno, groups.size(), 7).empty());
  REQUIRE_FALSE(tree.inode(2 + groups.size()));
  REQUIRE(tree.name(2 + groups.size()).empty());
  REQUIRE(tree.list(2 + groups.size(), 0, 7).empty());
}

void check_records(const ExampleTree& tree, const std::vector<Expected>& records) {
  REQUIRE(tree.directory_count() == 1 + tree.inode(kRootIno)->entry_count + records.size());
  uint64_t place = 0;
  for (uint64_t record = 0; record < records.size(); ++record) {
    const auto& [group, name, group_ino] = records[record];
    place = record > 0 && records[record - 1].group_ino == group_ino ? place + 1 : 0;
    const Ino ino = ExampleTree::folder_ino(record);
    REQUIRE(tree.lookup(group_ino, name) == ino);
    REQUIRE(tree.list(group_ino, place, 1).front().ino == ino);
    REQUIRE(tree.list(group_ino, place, 1).front().name == name);
    REQUIRE(tree.inode(ino)->parent == group_ino);
    REQUIRE(tree.name(ino) == name);
    REQUIRE(tree.path(ino) == group + "/" + name);
    REQUIRE(tree.file_of(record) == ino);
    REQUIRE(tree.top(record) == ino);
    REQUIRE(tree.record_of(ino + 3) == record);
    const auto folder = tree.make_opaque(record, 5);
    REQUIRE(folder->inode(ino)->parent == group_ino);
    REQUIRE(folder->name(ino) == name);
    const auto hint = find_hint(tree, records.size(), "/" + group + "/" + name + "/record.bin");
    REQUIRE(hint);
    REQUIRE(hint->record == record);
    REQUIRE(hint->is_of_all);
    REQUIRE_FALSE(find_hint(tree, records.size(), "/" + group));
    REQUIRE_FALSE(find_hint(tree, records.size(), "/" + name));
  }
  REQUIRE(tree.file_of(records.size()) == 0);
  REQUIRE_FALSE(tree.inode(ExampleTree::folder_ino(records.size())));
  REQUIRE(tree.lookup(kRootIno, number(0)) == 0);
}

}  // namespace

TEST_CASE("a tree of groups has all their records, whatever their sizes") {
  std::mt19937 random(16);  // NOLINT(cert-msc51-cpp): the same at every run
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    std::vector<ExampleGroup> groups;
    for (size_t i = random() % 6; i > 0; --i) {
      const std::string name = "group" + std::to_string(i);
      groups.insert(groups.begin(), {.name = name, .record_count = random() % 4});
    }
    const ExampleTree tree(groups);
    check_root(tree, groups);
    check_records(tree, records_of(groups));
  }
}

TEST_CASE("a group has as many digits as its last number needs") {
  const ExampleTree tree(std::vector<ExampleGroup>{{"a", 1'000'000'001}, {"b", 3}});
  CHECK(tree.name(ExampleTree::folder_ino(1'000'000'000)) == "1000000000");
  CHECK(tree.name(ExampleTree::folder_ino(7)) == "0000000007");
  CHECK(tree.name(ExampleTree::folder_ino(1'000'000'003)) == "000000002");
}

TEST_CASE("groups with bad names or bad order or too many records are refused") {
  const auto refused = [](const std::vector<ExampleGroup>& groups) {
    CHECK_THROWS_AS(ExampleTree{groups}, FormatError);
  };
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"),
        std::string("a\0b", 3), std::string(256, 'a')}) {
    refused({{name, 1}});
  }
  refused({{"b", 1}, {"a", 1}});
  refused({{"a", 1}, {"a", 1}});
  refused({{"a", uint64_t{1} << 40}});
  refused({{"a", (uint64_t{1} << 40) - 1}, {"b", 1}});
  refused({{"a", UINT64_MAX}, {"b", 2}});
  const std::string longest(255, 'a');
  CHECK(ExampleTree(std::vector<ExampleGroup>{{longest, 1}}).path(2) == longest);
}
