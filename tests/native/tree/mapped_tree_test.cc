// native/tree/mapped_tree.h: it shows what the index says. Nothing in an index can make it show
// names that a folder cannot have, or go in circles.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "damage.h"
#include "index_file.h"
#include "io/error.h"
#include "threads.h"
#include "tree/mapped_tree.h"
#include "tree_walk.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

struct Opened {
  Opened(const TemporaryFolder& folder, const Model& model, uint64_t record_count) {
    uint64_t link_count = 0;
    const Sections sections = index_sections(model, record_count, link_count);
    file.emplace(folder, "packed.ffr", sections, record_count, link_count);
    tree.emplace(*file->index);
  }

  std::optional<IndexedFile> file;
  std::optional<MappedTree> tree;
};

// Asks the tree everything about all that can be reached; returns how many errors there were.
// `slots`: how many inodes the index has.
size_t walk(const Tree& tree, uint64_t slots, uint64_t record_count) {
  size_t faults = 0;
  const auto tried = faults_counted("packed.ffr", faults);
  TreeWalk{tree, slots, required, tried}.run([&](Ino folder, const Dentry& entry) {
    REQUIRE(entry.ino > folder);  // so there is no cycle
    REQUIRE(entry.ino <= slots);
  });
  for (uint64_t record = 0; record <= record_count + 1; ++record) {
    tried([&] {
      const Ino ino = tree.file_of(record);
      if (ino == 0) return;
      const Inode inode = tree.inode(ino).value();
      REQUIRE(inode.record == record);
    });
  }
  for (Ino ino = 0; ino <= slots + 2; ++ino) {
    tried([&] { (void)tree.path(ino); });
  }
  return faults;
}

// The small tree that the tests below damage.
//
//   slot 0 /   1 a/   2 b/   3 c -> "to"   4 d   5 a/x   6 a/y/   7 b/z
Model sample() {
  Model root;
  Model& a = root.entries["a"];
  a.entries["x"] = file_model(0);
  a.entries["y"] = Model();
  root.entries["b"].entries["z"] = file_model(1);
  root.entries["c"] = {.kind = InodeKind::kSymlink, .record = 0, .target = "to", .entries = {}};
  root.entries["d"] = file_model(2);
  return root;
}

template <typename T> T entry(Sections& sections, Section which, size_t number) {
  return load_le<T>(view(section(sections, which)), number * sizeof(T));
}

template <typename T>
void put_entry(Sections& sections, Section which, size_t number, const T& value) {
  put(section(sections, which), number * sizeof(T), value);
}

// Return the sample with one inode or directory changed.
template <typename T, typename Change>
IndexedFile changed(const TemporaryFolder& folder, Section which, size_t number,
                    const Change& change) {
  uint64_t link_count = 0;
  Sections sections = index_sections(sample(), 3, link_count);
  T value = entry<T>(sections, which, number);
  change(value);
  put_entry(sections, which, number, value);
  return {folder, "packed.ffr", sections, 3, link_count};
}

std::string fault_of(const auto& ask) {
  try {
    ask();
  } catch (const FormatError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("the tree has exactly the entries of the index") {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    uint64_t record_count = 0;
    const Model root = random_model(random, seed < 20 ? seed * 7 : 400, record_count);
    const TemporaryFolder folder;
    const Opened opened(folder, root, record_count);
    const Tree& tree = *opened.tree;
    TreeCheck shown(tree);
    shown.check(root);
    const size_t seen = shown.seen.size();
    CHECK(tree.directory_count() == root.count(InodeKind::kDirectory));
    CHECK(tree.file_count() == root.count(InodeKind::kFile));
    CHECK(tree.link_count() == root.count(InodeKind::kSymlink));
    CHECK(walk(tree, seen, record_count) == 0);
    CHECK(tree.inode(0) == std::nullopt);
    CHECK(tree.inode(seen + 1) == std::nullopt);
    CHECK(tree.inode(UINT64_MAX) == std::nullopt);
    CHECK(tree.lookup(UINT64_MAX, "a") == 0);
    CHECK(tree.name(UINT64_MAX).empty());
  }
}

TEST_CASE("file_of() gives the file of a record's lowest slot") {
  Model root;
  root.entries["a"].entries["twin"] = file_model(1);
  root.entries["b"] = file_model(1);
  root.entries["c"] = file_model(0);
  const TemporaryFolder folder;
  const Opened opened(folder, root, 2);
  CHECK(opened.tree->path(opened.tree->file_of(1)) == "b");
  CHECK(opened.tree->path(opened.tree->file_of(0)) == "c");
  CHECK(opened.tree->file_of(2) == 0);  // the index itself
  CHECK(opened.tree->file_of(UINT64_MAX) == 0);
}

TEST_CASE("modes and times may be unknown") {
  Model root;
  root.entries["a"] = file_model(0);
  root.entries["a"].mode = std::nullopt;
  root.entries["a"].mtime_ns = std::nullopt;
  root.entries["b"] = file_model(0);
  root.entries["b"].mode = 0;  // 0000 counts as a mode if there is a time
  root.entries["c"] = file_model(0);
  root.entries["c"].mtime_ns = -1;  // in 1969
  const TemporaryFolder folder;
  const Opened opened(folder, root, 1);
  TreeCheck(*opened.tree).check(root);
}

TEST_CASE("each reference in the index is checked where it is followed") {
  const TemporaryFolder folder;
  const auto inode = [&](size_t slot, const auto& change) {
    return changed<IndexInode>(folder, Section::kInodes, slot, change);
  };
  const auto directory = [&](size_t number, const auto& change) {
    return changed<IndexDirectory>(folder, Section::kDirectories, number, change);
  };
  const auto ask_inode = [](Ino ino) {
    return [ino](const MappedTree& tree) { (void)tree.inode(ino); };
  };
  const auto ask_list = [](Ino ino) {
    return [ino](const MappedTree& tree) { (void)tree.list(ino, 0, 99); };
  };
  const auto ask_subdirectories = [](Ino ino) {
    return [ino](const MappedTree& tree) { (void)tree.subdirectories(ino, 0, 99); };
  };
  const auto check_fault = [&](const IndexedFile& file, const auto& ask, const char* reason) {
    const MappedTree tree(*file.index);
    const std::string fault = fault_of([&] { ask(tree); });
    CAPTURE(fault);
    CHECK(fault.find("packed.ffr: ") != std::string::npos);
    CHECK(fault.find(reason) != std::string::npos);
    walk(tree, 8, 3);
  };
  // Slots and inodes: ino = slot + 1.
  check_fault(inode(5, [](auto& it) { it.parent = 5; }), ask_inode(6), "slot 5");
  check_fault(inode(5, [](auto& it) { it.parent = 7; }), ask_inode(6), "before its directory");
  check_fault(inode(5, [](auto& it) { it.parent = 2; }), ask_inode(6), "another directory");
  check_fault(inode(5, [](auto& it) { it.parent = 2; }), ask_list(2), "another directory");
  check_fault(inode(5, [](auto& it) { it.parent = 3; }), ask_inode(6),
              "its parent is not a directory");
  check_fault(inode(5, [](auto& it) { it.mode = S_IFIFO | 0644; }), ask_inode(6), "neither file");
  check_fault(inode(5, [](auto& it) { it.mode = 0; }), ask_inode(6), "neither file");
  check_fault(inode(6, [](auto& it) { it.value = 4; }), ask_inode(7), "no place");
  check_fault(inode(6, [](auto& it) { it.value = UINT64_MAX; }), ask_inode(7), "no place");
  check_fault(inode(6, [](auto& it) { it.value = 0; }), ask_inode(7), "another directory's");
  check_fault(inode(6, [](auto& it) { it.mode = S_IFREG; }), ask_subdirectories(2), "another");
  check_fault(inode(1, [](auto& it) { it.name_size = 0; }), ask_list(1), "an empty name");
  check_fault(inode(5, [](auto& it) { it.name_size = 256; }), ask_list(2), "255");
  check_fault(inode(5, [](auto& it) { it.name_size = 9; }), ask_list(2), "section names");
  check_fault(inode(5, [](auto& it) { it.name_offset = 6; }), ask_list(2), "not behind");
  check_fault(inode(6, [](auto& it) { it.name_offset = 4; }), ask_list(2), "not behind");
  check_fault(inode(3, [](auto& it) { it.value = 3; }), ask_inode(4), "section targets");
  check_fault(inode(3, [](auto& it) { it.value = UINT64_MAX - 3; }), ask_inode(4), "targets");
  check_fault(directory(1, [](auto& it) { it.slot = 2; }), ask_inode(2), "another directory's");
  check_fault(directory(1, [](auto& it) { it.slot = 0xffffffff; }), ask_list(2), "another");
  check_fault(directory(1, [](auto& it) { it.first_child = 0; }), ask_list(2), "entries are not");
  check_fault(directory(1, [](auto& it) { it.first_child = 1; }), ask_list(2), "entries are not");
  check_fault(directory(1, [](auto& it) { it.first_child = 9; }), ask_list(2), "entries are not");
  check_fault(directory(1, [](auto& it) { it.entry_count = 4; }), ask_list(2), "entries are not");
  check_fault(directory(1, [](auto& it) { it.entry_count = 3; }), ask_list(2), "another directory");
  check_fault(directory(2, [](auto& it) { it.first_child = 6; }), ask_list(3), "another directory");
  check_fault(directory(1, [](auto& it) { it.first_subdirectory = 1; }), ask_inode(2), "subdir");
  check_fault(directory(1, [](auto& it) { it.first_subdirectory = 4; }), ask_inode(2), "subdir");
  check_fault(directory(1, [](auto& it) { it.subdirectory_count = 9; }), ask_inode(2), "subdir");
  check_fault(directory(1, [](auto& it) { it.first_subdirectory = 2; }), ask_subdirectories(2),
              "another directory");
  check_fault(directory(3, [](auto& it) { it.slot = 5; }), ask_subdirectories(2), "another");
}

TEST_CASE("entries beside a fault can be read") {
  const TemporaryFolder folder;
  const IndexedFile file =
      changed<IndexInode>(folder, Section::kInodes, 5, [](IndexInode& it) { it.parent = 2; });
  const MappedTree tree(*file.index);
  CHECK_THROWS_AS((void)tree.list(2, 0, 99), FormatError);
  CHECK_THROWS_AS((void)tree.lookup(2, "x"), FormatError);
  CHECK(tree.path(tree.lookup(2, "y")) == "a/y");
  CHECK(tree.list(1, 0, 99).size() == 4);
  CHECK(tree.list(3, 0, 99).size() == 1);
}

TEST_CASE("names that no folder can have are refused") {
  for (const std::string name : {"/", ".", "..", "a/b"}) {
    Model root;
    root.entries[name] = file_model(0);
    const TemporaryFolder folder;
    const Opened opened(folder, root, 1);
    CHECK_THROWS_AS((void)opened.tree->list(kRootIno, 0, 9), FormatError);
    CHECK_THROWS_AS((void)opened.tree->name(2), FormatError);
    CHECK_THROWS_AS((void)opened.tree->path(2), FormatError);
    CHECK_THROWS_AS((void)opened.tree->lookup(kRootIno, name), FormatError);
  }
  Model root;
  root.entries[std::string("a\0b", 3)] = file_model(0);
  const TemporaryFolder folder;
  const Opened opened(folder, root, 1);
  CHECK_THROWS_AS((void)opened.tree->list(kRootIno, 0, 9), FormatError);
}

TEST_CASE("links whose target is no path are refused") {
  for (const std::string& target : {std::string(), std::string(4096, 'a'), std::string(2, '\0')}) {
    Model root;
    root.entries["a"] = {.kind = InodeKind::kSymlink, .record = 0, .target = target, .entries = {}};
    const TemporaryFolder folder;
    const Opened opened(folder, root, 0);
    CHECK_THROWS_AS((void)opened.tree->inode(2), FormatError);
    CHECK_THROWS_AS((void)opened.tree->target(2), FormatError);
    CHECK(opened.tree->list(kRootIno, 0, 9).size() == 1);
  }
}

TEST_CASE("a root that is no folder is refused") {
  const TemporaryFolder folder;
  const IndexedFile file =
      changed<IndexInode>(folder, Section::kInodes, 0, [](IndexInode& it) { it.mode = S_IFREG; });
  CHECK_THROWS_AS(MappedTree(*file.index), FormatError);
}

TEST_CASE("a slice cannot hide that names are out of order") {
  Model root;
  for (const std::string name : {"a", "b", "c"}) root.entries[name] = file_model(0);
  uint64_t link_count = 0;
  Sections sections = index_sections(root, 1, link_count);
  section(sections, Section::kNames) = "abb";  // "b" twice
  const TemporaryFolder folder;
  const IndexedFile file(folder, "packed.ffr", sections, 1, 0);
  const MappedTree tree(*file.index);
  CHECK(tree.list(kRootIno, 0, 2).size() == 2);
  CHECK_THROWS_AS((void)tree.list(kRootIno, 2, 1), FormatError);
  CHECK_THROWS_AS((void)tree.list(kRootIno, 0, 3), FormatError);
}

TEST_CASE("damaged sections give faults, or a tree") {
  const TemporaryFolder folder;
  size_t faulty = 0;
  size_t opened = 0;
  const uint64_t seeds = std::max<uint64_t>(seed_count() / 20, 1);
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    uint64_t record_count = 0;
    uint64_t link_count = 0;
    const Model root = random_model(random, 1 + random() % 30, record_count);
    Sections sections = index_sections(root, record_count, link_count);
    const uint64_t slots = section(sections, Section::kInodes).size() / sizeof(IndexInode);
    for (uint64_t left = 1 + random() % 6; left > 0; --left) {
      Bytes& bytes = sections[random() % 5];  // the sections that MappedTree reads
      if (bytes.size() < 8) continue;
      const size_t at = random() % (bytes.size() / 4) * 4;
      switch (random() % 4) {
        case 0: bytes[at + random() % 4] ^= static_cast<char>(1U << random() % 8); break;
        case 1: put(bytes, at, static_cast<uint32_t>(random() % (slots + 2))); break;
        case 2: put(bytes, at, static_cast<uint32_t>(random() % 2 == 0 ? 0 : UINT32_MAX)); break;
        default:  // copy one entry's number over another
          put(bytes, at, load_le<uint32_t>(view(bytes), random() % (bytes.size() / 4) * 4));
      }
    }
    const IndexedFile file(folder, "packed.ffr", sections, record_count, link_count);
    try {
      const MappedTree tree(*file.index);
      ++opened;
      if (walk(tree, slots, record_count) > 0) ++faulty;
    } catch (const FormatError&) {
    }
  }
  CHECK(opened > seeds / 2);
  CHECK(faulty > opened / 4);
}

TEST_CASE("several threads read a tree at once") {
  Random random(1);
  uint64_t record_count = 0;
  const Model root = random_model(random, 3000, record_count);
  const TemporaryFolder folder;
  const Opened opened(folder, root, record_count);
  std::atomic<size_t> seen{0};
  in_threads(4, [&] {
    std::vector<Ino> folders{kRootIno};
    for (size_t at = 0; at < folders.size(); ++at) {
      for (const Dentry& found : opened.tree->list(folders[at], 0, UINT64_MAX)) {
        if (opened.tree->inode(found.ino)->is_directory()) folders.push_back(found.ino);
        if (opened.tree->lookup(folders[at], found.name) == found.ino) ++seen;
      }
    }
  });
  const uint64_t all = root.count(InodeKind::kDirectory) + root.count(InodeKind::kFile) +
                       root.count(InodeKind::kSymlink);
  CHECK(seen == 4 * (all - 1));
}
