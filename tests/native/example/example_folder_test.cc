// native/tree, the folder of a record: its files for golden and for awkward records, and the tree
// above it.

#include <doctest/doctest.h>

#include "example/example_name.h"
#include "example_folders.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::string_literals;

namespace {

Bytes npy(const Bytes& dtype, size_t count, const Bytes& values) {
  Bytes header = "{'descr': '" + dtype + "', 'fortran_order': False, 'shape': (" +
                 std::to_string(count) + ",), }";
  header += Bytes(117 - header.size(), ' ') + "\n";
  return "\x93NUMPY\1\0\x76\0"s + header + values;
}

template <typename T> Bytes npy(const Bytes& dtype, const std::vector<T>& values) {
  Bytes bytes;
  for (const T value : values) append_le(bytes, value);
  return npy(dtype, values.size(), bytes);
}

}  // namespace

TEST_CASE("a golden Example gets the expected files") {
  const Bytes record = golden_records("examples.tfrecord")[0];
  const auto files = walk(record);
  CHECK(paths(record) == std::vector<Bytes>{"embedding.npy", "example.json", "image/",
                                            "image/encoded.png", "image/format.txt",
                                            "image/height.npy", "image/width.npy", "label.npy",
                                            "record.bin", "tags/", "weights.npy"});
  CHECK(files.at("label.npy") == npy<int64_t>("<i8", {561021090880}));
  CHECK(files.at("image/height.npy") == npy<int64_t>("<i8", {24}));
  CHECK(files.at("embedding.npy") ==
        npy<float>("<f4", {0.07463563978672028F, 0.09291598945856094F, -2.358217239379883F,
                           0.5271414518356323F, -0.32915493845939636F, -0.2892284691333771F,
                           0.0697878748178482F, -0.9724755883216858F}));
  CHECK(files.at("weights.npy") == npy<float>("<f4", {}));
  CHECK(files.at("image/format.txt") == "png");
  CHECK(files.at("image/encoded.png").starts_with("\x89PNG"));
  CHECK(record.find(files.at("image/encoded.png")) != Bytes::npos);
}

TEST_CASE("without extensions files have the names of their features") {
  CHECK(paths(golden_records("examples.tfrecord")[0], false) ==
        std::vector<Bytes>{"embedding", "example.json", "image/", "image/encoded", "image/format",
                           "image/height", "image/width", "label", "record.bin", "tags/",
                           "weights"});
}

TEST_CASE("golden SequenceExamples get the expected files") {
  const auto records = golden_records("sequences.tfrecord");
  CHECK(paths(records[0]) == std::vector<Bytes>{"example.json", "frames/", "id.npy", "name.txt",
                                                "record.bin", "tokens/"});
  const auto files = walk(records[2]);
  CHECK(paths(records[2]) == std::vector<Bytes>{"example.json", "frames/", "frames/0.npy",
                                                "frames/1.npy", "id.npy", "name.txt", "record.bin",
                                                "tokens/", "tokens/0.npy", "tokens/1.npy"});
  CHECK(files.at("id.npy") == npy<int64_t>("<i8", {2}));
  CHECK(files.at("name.txt") == "seq2");
  CHECK(files.at("tokens/0.npy") == npy<int64_t>("<i8", {}));
  CHECK(files.at("tokens/1.npy") == npy<int64_t>("<i8", {0}));
}

TEST_CASE("a record that is no Example has record.bin alone") {
  for (const Bytes& record : golden_records("raw.tfrecord")) {
    CHECK(paths(record) == std::vector<Bytes>{"record.bin"});
  }
  const FolderPtr folder = ExampleFolder::make_opaque(uint64_t{1} << 40, {kNumber, "000000012"});
  const Ino file = folder->lookup(ExampleTree::folder_ino(kNumber), "record.bin");
  CHECK(folder->inode(file)->size == uint64_t{1} << 40);
  CHECK(folder->contents(file)->size == uint64_t{1} << 40);
  CHECK(folder->path(file) == "000000012/record.bin");
}

TEST_CASE("every golden record gives the same folder twice") {
  for (const char* name : {"examples.tfrecord", "sequences.tfrecord"}) {
    for (const Bytes& record : golden_records(name)) CHECK(walk(record) == walk(record));
  }
}

TEST_CASE("values and steps are in folders, as numbers in byte order") {
  std::vector<Bytes> values(12, "v");
  values[1] = "\0"s;
  const Bytes record =
      sequence_example({{"several", bytes_list(values)}, {"none", bytes_list({})}},
                       {{"steps", feature_list({bytes_list({"a"}), bytes_list({"{}", "b"}), "",
                                                float_list({1}), bytes_list({})})}});
  CHECK(paths(record) ==
        std::vector<Bytes>{"example.json",  "none/",         "record.bin",     "several/",
                           "several/0.txt", "several/1",     "several/10.txt", "several/11.txt",
                           "several/2.txt", "several/3.txt", "several/4.txt",  "several/5.txt",
                           "several/6.txt", "several/7.txt", "several/8.txt",  "several/9.txt",
                           "steps/",        "steps/0.txt",   "steps/1/",       "steps/1/0.json",
                           "steps/1/1.txt", "steps/3.npy",   "steps/4/"});
}

TEST_CASE("the last of several features of one name counts") {
  const Bytes record = example_of({{"a", int64_list({1})}, {"b", ""}, {"a", int64_list({2})}}) +
                       example_of({{"b", bytes_list({"x"})}, {"c", int64_list({3})}, {"c", ""}});
  const auto files = walk(record);
  CHECK(paths(record) == std::vector<Bytes>{"a.npy", "b.txt", "example.json", "record.bin"});
  CHECK(files.at("a.npy") == npy<int64_t>("<i8", {2}));
}

TEST_CASE("the order of features does not change the folder") {
  CHECK(paths(example_of({{"a", int64_list({1})}, {"a", int64_list({2})}})) ==
        std::vector<Bytes>{"a.npy", "example.json", "record.bin"});
  const NamedMessages features = {
      {"c/d", bytes_list({"1"})}, {"b", float_list({2})}, {"c", bytes_list({"3", "4"})}};
  CHECK(paths(example_of(features)) == paths(example_of({features.rbegin(), features.rend()})));
}

TEST_CASE("a feature without a kind makes neither file nor folder") {
  CHECK(paths(example_of({{"a/b", ""}, {"c", ""}})) ==
        std::vector<Bytes>{"example.json", "record.bin"});
}

TEST_CASE("bytes that do not fit the layout of the folder are refused") {
  const Bytes record = example_of({{"a", int64_list({1, 2})}, {"b", float_list({1})}});
  const FolderPtr folder = make(record);
  const auto render = [&](const Bytes& name, const Bytes& was, const Bytes& is) {
    const Ino ino = folder->lookup(ExampleTree::folder_ino(kNumber), name);
    const Contents contents = folder->contents(ino).value();
    Bytes part = record.substr(contents.begin, contents.size.value());
    const size_t at = part.find(was);
    REQUIRE(at != Bytes::npos);
    part.replace(at, was.size(), is);
    return rendered(*folder, ino, part).size();
  };
  CHECK(render("a.npy", "\1\2", "\1\3") == 128 + 16);
  CHECK_THROWS_WITH_AS((void)render("a.npy", "\1\2", "\x81\2"), doctest::Contains("record 12:"),
                       FormatError);  // there is only one value
  CHECK_THROWS_AS((void)render("a.npy", "\1\2", "\1\2\3"), FormatError);
  CHECK_THROWS_AS((void)render("b.npy", "\x12\6", "\x1A\6"), FormatError);  // an int64_list
  CHECK_THROWS_AS((void)render("example.json", "\1\2", "\x81\2"), FormatError);
  CHECK_THROWS_AS((void)render("example.json", "\x0A", "\x7F"), FormatError);
}

TEST_CASE("names of features are spelt as paths") {
  const auto spelt = [](const Bytes& name) {
    std::string path = "before";
    spell_feature(name, path);
    return path;
  };
  CHECK(spelt("image/encoded") == "image/encoded");
  CHECK(spelt("") == "%");
  CHECK(spelt(".") == "%2E");
  CHECK(spelt("a/../b") == "a/%2E%2E/b");
  CHECK(spelt("./...") == "%2E/...");
  CHECK(spelt("/") == "%2F");
  CHECK(spelt("/a") == "%2Fa");
  CHECK(spelt("a/") == "a%2F");
  CHECK(spelt("a//b") == "a/%2Fb");
  CHECK(spelt("a//") == "a/%2F");
  CHECK(spelt("a\0b"s) == "a%00b");
  CHECK(spelt("100%") == "100%");
  CHECK(spelt("a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r") == "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p%2Fq%2Fr");
  CHECK(spelt(Bytes(241, 'a') + "/" + Bytes(240, 'b')) == Bytes(240, 'a') + "/" + Bytes(240, 'b'));
  CHECK(spelt(Bytes(239, 'a') + "\xE2\x82\xAC"
                                "b") == Bytes(239, 'a'));  // cut between two characters
  CHECK(spelt("///") == "%2F/%2F");
  CHECK(spelt(Bytes(1 << 20, '/')).size() == 15 * 4 + 240);
}

TEST_CASE("features whose names collide get a suffix") {
  const Bytes text = bytes_list({"text"});
  const Bytes bare = bytes_list({"\0"s});
  const auto contents = walk(example_of({{"a", bytes_list({"1"})},
                                         {"a.txt", bytes_list({"\0"s})},
                                         {"a~1.txt", bytes_list({"\1"s})}}));
  CHECK(contents.at("a.txt") == "1");
  CHECK(contents.at("a.txt~1") == "\0"s);
  CHECK(contents.at("a~1.txt") == "\1");
  // A feature keeps its name if it is the only one that has it.
  CHECK(paths(example_of({{"a", text}, {"a.txt", bare}, {"a.txt~1", bare}, {"a.txt~2", bare}})) ==
        std::vector<Bytes>{"a.txt", "a.txt~1", "a.txt~2", "a.txt~3", "example.json", "record.bin"});
  CHECK(paths(example_of({{"a", bare}, {"a/b", bare}, {"a/c", bare}})) ==
        std::vector<Bytes>{"a", "a~1/", "a~1/b", "a~1/c", "example.json", "record.bin"});
  CHECK(paths(example_of({{"example.json", bare}, {"record.bin/x", bare}, {"record", bare}})) ==
        std::vector<Bytes>{"example.json", "example.json~1", "record", "record.bin",
                           "record.bin~1/", "record.bin~1/x"});
  // A feature with several values shares its folder with no other feature.
  CHECK(paths(example_of({{"a", bytes_list({"1", "2"})}, {"a/0", text}})) ==
        std::vector<Bytes>{"a/", "a/0.txt", "a/1.txt", "a~1/", "a~1/0.txt", "example.json",
                           "record.bin"});
  CHECK(paths(sequence_example({{"a", bare}}, {{"a", feature_list({bare})}})) ==
        std::vector<Bytes>{"a", "a~1/", "a~1/0", "example.json", "record.bin"});
  CHECK(paths(example_of({{".", bare}, {"%2E", bare}})) ==
        std::vector<Bytes>{"%2E", "%2E~1", "example.json", "record.bin"});
  const Bytes cut(240, 'x');
  CHECK(paths(example_of({{cut + "a", text}, {cut + "b", text}, {cut + "/c", text}})) ==
        std::vector<Bytes>{"example.json", "record.bin", cut + ".txt", cut + "/", cut + "/c.txt",
                           cut + "~1.txt"});
}

TEST_CASE("inodes and names that do not exist are not found") {
  const Bytes record = golden_records("examples.tfrecord")[0];
  const FolderPtr folder = make(record);
  const Ino base = ExampleTree::folder_ino(kNumber);
  CHECK(folder->name(base) == "000000012");
  CHECK(folder->path(base) == "000000012");
  CHECK(folder->inode(base)->parent == kRootIno);
  CHECK(folder->file_of(kNumber) == base);
  CHECK(folder->file_of(kNumber + 1) == 0);
  CHECK(folder->lookup(base, "") == 0);
  CHECK(folder->lookup(base, "image/encoded.png") == 0);
  CHECK(folder->lookup(base, Bytes(256, 'a')) == 0);
  CHECK(folder->list(base, 0, 0).empty());
  CHECK(folder->list(base, UINT64_MAX, 1).empty());
  for (const Ino ino : {Ino{0}, kRootIno, base - 1, base + 12, UINT64_MAX}) {
    CHECK_FALSE(folder->inode(ino));
    CHECK(folder->lookup(ino, "record.bin") == 0);
    CHECK(folder->list(ino, 0, 10).empty());
    CHECK(folder->name(ino).empty());
    CHECK_FALSE(folder->contents(ino));
  }
}

TEST_CASE("the tree has a folder for each record") {
  const ExampleTree tree(1000);
  CHECK(tree.inode(kRootIno)->entry_count == 1000);
  CHECK(tree.lookup(kRootIno, "000000012") == Ino{13} << 24);
  CHECK(tree.lookup(kRootIno, "12") == 0);
  CHECK(tree.lookup(kRootIno, "000001000") == 0);
  CHECK(tree.lookup(Ino{13} << 24, "000000012") == 0);
  const auto entries = tree.list(kRootIno, 998, 10);
  REQUIRE(entries.size() == 2);
  CHECK(entries[1].name == "000000999");
  CHECK(entries[1].ino == ExampleTree::folder_ino(999));
  CHECK(tree.list(kRootIno, 1000, 10).empty());
  CHECK(tree.list(entries[1].ino, 0, 10).empty());
  CHECK(tree.inode(entries[1].ino)->is_directory());
  CHECK(tree.inode(entries[1].ino)->parent == kRootIno);
  CHECK(tree.path(entries[1].ino) == "000000999");
  CHECK(tree.file_of(999) == entries[1].ino);
  CHECK(tree.file_of(1000) == 0);
  for (const Ino ino : {Ino{0}, Ino{2}, ExampleTree::folder_ino(0) + 1,
                        ExampleTree::folder_ino(1000), UINT64_MAX}) {
    CHECK_FALSE(tree.inode(ino));
    CHECK(tree.name(ino).empty());
  }
  CHECK_FALSE(ExampleTree(1).record_of(kRootIno));
  CHECK(tree.record_of(ExampleTree::folder_ino(0)) == 0);
  CHECK(tree.record_of(ExampleTree::folder_ino(7) + 5) == 7);
  CHECK(tree.record_of(ExampleTree::folder_ino(999) + 5) == 999);
  CHECK_FALSE(tree.record_of(ExampleTree::folder_ino(1000)));
  CHECK(tree.top(7) == ExampleTree::folder_ino(7));
  const ExampleTree most((uint64_t{1} << 40) - 1);
  const Ino last = most.file_of((uint64_t{1} << 40) - 2);
  CHECK(last == (UINT64_MAX >> 24) << 24);
  CHECK(most.inode(last)->is_directory());
  CHECK_THROWS_AS(ExampleTree(uint64_t{1} << 40), FormatError);
}
