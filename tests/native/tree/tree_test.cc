// native/tree without any index: tables, computed trees, names.

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"
#include "tree/flat_tree.h"
#include "tree/name.h"
#include "tree/tree_builder.h"
#include "tree_model.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

using Random = std::mt19937_64;

void check_against(const Tree& tree, const Model& model) {
  TreeCheck shown(tree);
  shown.check(model);
  for (const auto& [record, ino] : shown.first_of) REQUIRE(tree.file_of(record) == ino);
  CHECK(tree.file_count() == model.count(InodeKind::kFile));
  CHECK(tree.directory_count() == model.count(InodeKind::kDirectory));
}

void check_no_inode(const Tree& tree, Ino ino) {
  CHECK_FALSE(tree.inode(ino));
  CHECK(tree.lookup(ino, "a") == 0);
  CHECK(tree.list(ino, 0, 1).empty());
  CHECK(tree.name(ino).empty());
  CHECK(tree.path(ino).empty());
}

}  // namespace

TEST_CASE("a folder tree has the entries that were put into it") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const size_t count = random() % (seed < 40 ? 30 : 1500);
    uint64_t record_count = 0;
    const Model model = pickled(random_model(random, count, record_count, false));
    const auto tree = parsed(model, record_count, &random);
    check_against(*tree, model);
    check_no_inode(*tree, 0);
    check_no_inode(*tree, tree->file_count() + tree->directory_count() + 1);
    check_no_inode(*tree, UINT64_MAX);
    CHECK(tree->file_of(record_count) == 0);
    CHECK(tree->file_of(UINT64_MAX) == 0);
  }
}

TEST_CASE("inode numbers are dense, and consecutive within a directory") {
  Random random(7);
  uint64_t record_count = 0;
  const Model model = random_model(random, 300, record_count, false);
  const auto tree = parsed(model, record_count, &random);
  const Ino end = kRootIno + tree->file_count() + tree->directory_count();
  Ino next = kRootIno + 1;
  for (Ino ino = kRootIno; ino < end; ++ino) {
    for (const Dentry& entry : tree->list(ino, 0, UINT64_MAX)) CHECK(entry.ino == next++);
  }
  CHECK(next == end);
}

TEST_CASE("a tree takes little memory for each file") {
  TreeBuilder builder("packed.ffr", 1'000'000);
  const auto root = builder.add_directory();
  for (int i = 0; i < 100'000; ++i) {
    builder.place_file(root, builder.add_name("image_" + std::to_string(1'000'000 + i)), i);
  }
  CHECK(builder.finish()->memory_bytes() < 100'000 * (13 + 1 + 16) + 1000);
}

TEST_CASE("the tree of a plain file has one file for each record") {
  for (const uint64_t count : {0, 1, 10, 1000}) {
    CAPTURE(count);
    Model model = pickled(Model());
    for (uint64_t record = 0; record < count; ++record) {
      const std::string digits = std::to_string(record);
      model.entries[std::string(9 - digits.size(), '0') + digits] = pickled(file_model(record));
    }
    const FlatTree tree(count);
    check_against(tree, model);
    check_no_inode(tree, 0);
    check_no_inode(tree, count + 2);
    check_no_inode(tree, UINT64_MAX);
    CHECK(tree.file_of(count) == 0);
    CHECK(tree.file_of(UINT64_MAX) == 0);
  }
}

namespace {

// A tree of directories only, given by their numbers. Those in `damaged` cannot be listed.
class Directories final : public Tree {
 public:
  std::map<Ino, std::vector<Ino>> inside;
  std::set<Ino> damaged;
  mutable uint64_t listed_count = 0;

  // Adds directories below `top`, each inside the one before it; returns the last.
  Ino add_chain(Ino top, size_t depth) {
    for (; depth > 0; --depth) {
      inside[top].push_back(++last_);
      top = last_;
    }
    return top;
  }

  [[nodiscard]] std::vector<Dentry> subdirectories(Ino directory, uint64_t start,
                                                   uint64_t limit) const override {
    ++listed_count;
    if (damaged.contains(directory)) throw ChecksumError("damaged");
    const auto found = inside.find(directory);
    std::vector<Dentry> entries;
    if (found == inside.end()) return entries;
    for (uint64_t i = start; i < found->second.size() && i < start + limit; ++i) {
      entries.push_back({"name", found->second[i]});
    }
    return entries;
  }
  [[nodiscard]] std::optional<Inode> inode(Ino) const override { return std::nullopt; }
  [[nodiscard]] Ino lookup(Ino, std::string_view) const override { return 0; }
  [[nodiscard]] std::vector<Dentry> list(Ino, uint64_t, uint64_t) const override { return {}; }
  [[nodiscard]] std::string name(Ino) const override { return {}; }
  [[nodiscard]] Ino file_of(uint64_t) const override { return 0; }
  [[nodiscard]] uint64_t file_count() const override { return 0; }
  [[nodiscard]] uint64_t directory_count() const override { return last_; }

 private:
  Ino last_ = kRootIno;
};

}  // namespace

TEST_CASE("directories that are too deep are found, whatever else the tree has") {
  Directories tree;
  for (int i = 0; i < 600; ++i) static_cast<void>(tree.add_chain(kRootIno, 2));
  const Ino deepest = tree.add_chain(kRootIno, 1024);
  CHECK(tree.find_too_deep(kRootIno) == 0);
  const Ino beyond = tree.add_chain(deepest, 1);
  CHECK(tree.find_too_deep(kRootIno) == beyond);
  CHECK(tree.find_too_deep(tree.inside[kRootIno].back()) == 0);
  tree.damaged.insert(deepest);
  CHECK(tree.find_too_deep(kRootIno) == 0);
  tree.damaged = {tree.inside[kRootIno].front()};
  CHECK(tree.find_too_deep(kRootIno) == beyond);
}

TEST_CASE("a long chain of directories is listed no deeper than needed") {
  Directories tree;
  static_cast<void>(tree.add_chain(kRootIno, 100'000));
  CHECK(tree.find_too_deep(kRootIno) == kRootIno + 1025);
  CHECK(tree.listed_count <= 1026);
}

TEST_CASE("a record's name has no second spelling") {
  const FlatTree tree(1000);
  CHECK(tree.lookup(kRootIno, "000000007") == 9);
  CHECK(tree.file_of(7) == 9);
  for (const char* other : {"7", "00000007", "0000000007", "+00000007", "-00000007", " 00000007",
                            "00000007 ", "0x0000007", "000001000", ""}) {
    CAPTURE(other);
    CHECK(tree.lookup(kRootIno, other) == 0);
  }
}

TEST_CASE("names are longer if the last number needs more than nine digits") {
  CHECK(FlatTree(1'000'000'000).name(2) == "000000000");
  const FlatTree tree(1'000'000'001);
  CHECK(tree.name(2) == "0000000000");
  CHECK(tree.lookup(kRootIno, "1000000000") == 1'000'000'002);
  CHECK(tree.lookup(kRootIno, "000000000") == 0);
  CHECK(tree.list(kRootIno, 999'999'999, 5).size() == 2);
  const FlatTree vast(UINT64_MAX - 2);
  CHECK(vast.name(UINT64_MAX - 1) == "18446744073709551612");
  CHECK(vast.lookup(kRootIno, "18446744073709551612") == UINT64_MAX - 1);
  CHECK(vast.lookup(kRootIno, "18446744073709551613") == 0);
  CHECK(vast.lookup(kRootIno, "99999999999999999999") == 0);
}

TEST_CASE("printable() gives one line, and shortens long text") {
  CHECK(printable("a b~") == "a b~");
  CHECK(printable(std::string_view("\n\x1b[2J\\\x7f\xc3\0", 9)) ==
        "\\x0a\\x1b[2J\\x5c\\x7f\\xc3\\x00");
  const std::string shown = printable(std::string(1000, 'a') + "end");
  CHECK(shown.size() < 130);
  CHECK(shown.ends_with("aend"));
}

TEST_CASE("names are decoded from UTF-8 with surrogates") {
  NameDecoder decoder;
  const auto decoded = [&](std::string_view pickled) {
    const char* fault = decoder.utf8(pickled);
    return fault == nullptr ? std::string(decoder.name()) : "fault: " + std::string(fault);
  };
  // The first and last character of each length; then surrogates for the lowest and highest byte.
  for (const char* text :
       {"\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "ascii and \xc3\xbc"}) {
    CHECK(decoded(text) == text);
  }
  CHECK(decoded("\xed\xb2\x80x\xed\xb3\xbf") == "\x80x\xff");
  // Overlong, cut short, stray, too large; surrogates that encode no byte.
  for (const char* text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xc3", "a\xe5\x90",
        "\xc3z", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xff", "\xed\xa0\x80", "\xed\xb0\x80",
        "\xed\xb1\xbf", "\xed\xb4\x80", "\xed\xbf\xbf"}) {
    CAPTURE(printable(text));
    CHECK(decoded(text).starts_with("fault: "));
  }
  CHECK(decoded(std::string(255, 'a')).size() == 255);
  CHECK(decoded(std::string(256, 'a')).starts_with("fault: "));
  CHECK(decoded(std::string(254, 'a') + "\xc3\xbc").starts_with("fault: "));
}
