// native/tree/union_*.h: several packed folders as one tree, compared with a model. Parts that lie
// cannot make it show a name twice.

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
#include "union/union_tree.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

// One pack of a union, with an index (MappedTree) or a pickle (PickleTree).
struct Pack {
  Model model;
  uint64_t record_count = 0;
  std::optional<IndexSet> set = std::nullopt;
  bool has_index = true;
};

IndexSet set_of(char id, uint32_t number, uint32_t count = 2) {
  return {.id = {std::byte(id)}, .number = number, .count = count, .zero = 0};
}

// The open packs, and their union.
struct Opened {
  explicit Opened(const std::vector<Pack>& packs, OnConflict on_conflict = OnConflict::kError) {
    std::vector<UnionPart> parts;
    uint64_t first_record = 0;
    for (const Pack& pack : packs) {
      const std::string name = std::to_string(parts.size()) + ".ffr";
      std::unique_ptr<const Tree> part;
      if (pack.has_index) {
        uint64_t link_count = 0;
        const Sections sections = index_sections(pack.model, pack.record_count, link_count);
        files.push_back(
            std::make_unique<IndexedFile>(folder, name, sections, pack.record_count, link_count));
        part = std::make_unique<MappedTree>(*files.back()->index);
      } else {
        part = parsed(pack.model, pack.record_count);
      }
      parts.push_back({std::move(part), first_record, name, pack.set});
      first_record += pack.record_count + 1;  // and one for its index
    }
    tree = std::make_unique<UnionTree>(std::move(parts), on_conflict);
  }

  TemporaryFolder folder;
  std::vector<std::unique_ptr<IndexedFile>> files;
  std::unique_ptr<const UnionTree> tree;
};

// Return the model as a part shows it: with the union's record numbers, and as a pickle knows it.
Model shown(const Model& model, const Pack& pack, uint64_t first_record) {
  Model copy = pack.has_index ? model : pickled(model);
  if (copy.kind == InodeKind::kFile) copy.record += first_record;
  for (auto& [name, entry] : copy.entries) entry = shown(entry, pack, first_record);
  return copy;
}

// Merges the entries of one name, given in the order of the packs. nullopt: a conflict.
std::optional<Model> merged(std::vector<Model> models, OnConflict on_conflict) {
  const auto is_directory = [](const Model& model) { return model.is_directory(); };
  const bool is_conflict = models.size() > 1 && !std::ranges::all_of(models, is_directory);
  if (is_conflict && on_conflict == OnConflict::kError) return std::nullopt;
  const Model chosen = on_conflict == OnConflict::kLast ? models.back() : models.front();
  if (!chosen.is_directory()) return chosen;
  std::erase_if(models, [](const Model& model) { return !model.is_directory(); });
  Model all = models.front();
  all.entries.clear();
  std::map<std::string, std::vector<Model>> entries;
  for (const Model& model : models) {
    for (const auto& [name, entry] : model.entries) entries[name].push_back(entry);
  }
  for (const auto& [name, of_name] : entries) {
    const std::optional<Model> entry = merged(of_name, on_conflict);
    if (!entry) return std::nullopt;
    all.entries[name] = *entry;
  }
  return all;
}

std::optional<Model> merged(const std::vector<Pack>& packs, OnConflict on_conflict) {
  std::vector<Model> models;
  uint64_t first_record = 0;
  for (const Pack& pack : packs) {
    models.push_back(shown(pack.model, pack, first_record));
    first_record += pack.record_count + 1;
  }
  return merged(models, on_conflict);
}

void check_records(const Tree& tree, const std::vector<Pack>& packs) {
  uint64_t record = 0;
  for (const Pack& pack : packs) {
    for (uint64_t own = 0; own < pack.record_count; ++own, ++record) {
      const Ino ino = tree.file_of(record);
      if (ino != 0) REQUIRE(tree.inode(ino)->record == record);
    }
    REQUIRE(tree.file_of(record++) == 0);  // the pack's index
  }
  REQUIRE(tree.file_of(record) == 0);
  REQUIRE(tree.file_of(UINT64_MAX) == 0);
}

void check_union(const std::vector<Pack>& packs, OnConflict on_conflict) {
  const std::optional<Model> expected = merged(packs, on_conflict);
  if (!expected) {
    REQUIRE_THROWS_AS(Opened(packs, on_conflict), FormatError);
    return;
  }
  const bool has_conflicts = !merged(packs, OnConflict::kError);
  const Opened opened(packs, on_conflict);
  const Tree& tree = *opened.tree;
  TreeCheck(tree, has_conflicts ? Counts::kHidden : Counts::kShared).check(*expected);
  check_records(tree, packs);
  REQUIRE(tree.inode(kRootIno)->may_hide_some == (on_conflict != OnConflict::kError));
  if (!has_conflicts) {
    REQUIRE(tree.file_count() == expected->count(InodeKind::kFile));
    REQUIRE(tree.directory_count() == expected->count(InodeKind::kDirectory));
    REQUIRE(tree.link_count() == expected->count(InodeKind::kSymlink));
  }
  // No other inode is shown, nor one of a part that no entry leads to.
  REQUIRE(tree.inode(0) == std::nullopt);
  REQUIRE(tree.inode(uint64_t{packs.size()} << 40 | 1) == std::nullopt);
  REQUIRE(tree.inode(UINT64_MAX) == std::nullopt);
  for (size_t part = 1; part < packs.size(); ++part) {  // a part's own root is not shown
    const Ino root = uint64_t{part} << 40 | kRootIno;
    REQUIRE(tree.inode(root) == std::nullopt);
    REQUIRE(tree.list(root, 0, 9).empty());
    REQUIRE(tree.lookup(root, opened.tree->list(kRootIno, 0, 1).empty() ? "a" : "b") == 0);
  }
}

// Return whether a pack has a link anywhere, since a pickle cannot have one.
bool has_links(const Model& model) { return model.count(InodeKind::kSymlink) > 0; }

// Cuts up `whole`: each file and link goes to one pack, each directory to the packs of its entries,
// an empty one to one pack. In runs of paths, as a packer does it, or at random.
struct Cut {
  std::vector<Pack>& packs;
  Random& random;
  bool in_runs;
  uint64_t left;  // entries that are left of a run
  size_t pack = 0;

  size_t next() {
    if (!in_runs) return random() % packs.size();
    if (left-- == 0) {
      left = random() % 40;
      pack = std::min(pack + 1, packs.size() - 1);
    }
    return pack;
  }

  void cut(const Model& whole, const std::vector<std::string>& path) {
    if (whole.entries.empty()) (void)place(next(), whole, path);
    for (const auto& [name, entry] : whole.entries) {
      std::vector<std::string> below = path;
      below.push_back(name);
      if (entry.is_directory()) {
        cut(entry, below);
      } else {
        const size_t number = next();
        Model& placed = place(number, entry, below);
        if (entry.kind == InodeKind::kFile) placed.record = packs[number].record_count++;
      }
    }
  }

  Model& place(size_t number, const Model& like, const std::vector<std::string>& path) {
    Model* at = &packs[number].model;
    for (const std::string& name : path) at = &at->entries[name];
    Model copy = like;
    copy.entries.clear();
    return *at = std::move(copy);
  }
};

}  // namespace

TEST_CASE("the packs of a folder together show the folder") {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    uint64_t record_count = 0;
    const Model whole = random_model(random, seed * 8, record_count);
    std::vector<Pack> packs(1 + random() % 9);
    Cut{packs, random, seed % 2 == 0, random() % 40}.cut(whole, {});
    const bool is_set = random() % 2 == 0;
    for (size_t i = 0; i < packs.size(); ++i) {
      if (is_set) packs[i].set = set_of('s', static_cast<uint32_t>(i));
      packs[i].has_index = has_links(packs[i].model) || random() % 3 > 0;
    }
    check_union(packs, OnConflict::kError);
    check_union(packs, OnConflict::kLast);
  }
}

TEST_CASE("packs that have common paths are merged or refused by the given rule") {
  size_t conflicts = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<Pack> packs(2 + random() % 4);
    for (Pack& pack : packs) {
      pack.model = random_model(random, random() % (2 * seed + 2), pack.record_count);
      pack.has_index = has_links(pack.model) || random() % 3 > 0;
    }
    if (!merged(packs, OnConflict::kError)) ++conflicts;
    for (const OnConflict on_conflict :
         {OnConflict::kError, OnConflict::kFirst, OnConflict::kLast}) {
      check_union(packs, on_conflict);
    }
  }
  CHECK(conflicts > 20);
  CHECK(conflicts < 55);
}

TEST_CASE("the error for a conflict names the path and both packs") {
  const auto fault_of = [](const std::vector<Pack>& packs) -> std::string {
    try {
      Opened opened(packs);
      return {};
    } catch (const FormatError& error) {
      return error.what();
    }
  };
  std::vector<Pack> packs(4);
  packs[1].model.entries["a"].entries["b"].entries["c\n"] = file_model(0);
  packs[1].record_count = 1;
  packs[3].model.entries["a"].entries["b"].entries["c\n"] = Model();
  CHECK(fault_of(packs) ==
        "1.ffr and 3.ffr: both have \"a/b/c\\x0a\", a file and a directory; choose "
        "one with --on-conflict first or last");
  // Two shards of one set, which are not compared with each other, and another pack.
  packs[0] = packs[1];
  packs[3] = packs[1];
  packs[0].set = set_of('s', 0);
  packs[1].set = set_of('s', 1);
  CHECK(fault_of(packs).starts_with("0.ffr and 3.ffr: both have"));
  packs[3].set = set_of('t', 1);
  CHECK(fault_of(packs).starts_with("0.ffr and 3.ffr: both have"));
  packs[3].set = set_of('s', 2);
  CHECK(fault_of(packs).empty());
  packs[3].set = set_of('s', 1);  // the same shard twice
  CHECK(fault_of(packs).starts_with("0.ffr and 3.ffr: both have"));
  packs[3] = Pack();
  packs[0].set = set_of('s', 1);
  CHECK(fault_of(packs).starts_with("0.ffr and 1.ffr: both have"));
}

TEST_CASE("a folder has the mode and the time of the first pack that has it") {
  std::vector<Pack> packs(3);
  packs[1].model.entries["a"].mode = 0700;
  packs[1].model.entries["a"].mtime_ns = 7;
  packs[2].model.entries["a"].mode = 0711;
  packs[2].model.entries["a"].mtime_ns = 8;
  for (const OnConflict on_conflict : {OnConflict::kError, OnConflict::kLast}) {
    const Opened opened(packs, on_conflict);
    const Ino ino = opened.tree->lookup(kRootIno, "a");
    CHECK(ino == (uint64_t{1} << 40 | 2));
    CHECK(opened.tree->inode(ino)->mode == 0700);
    CHECK(opened.tree->inode(ino)->mtime_ns == 7);
    CHECK(opened.tree->list(kRootIno, 0, 9).at(0).ino == ino);
  }
}

TEST_CASE("merging does not list folders that only one pack has") {
  // Folder a cannot be listed; but only one pack has it, so merging does not look into it.
  std::vector<Pack> packs(2);
  packs[0].model.entries["a"].entries["bad/name"] = Model();
  packs[1].model.entries["b"] = Model();
  const Opened opened(packs);
  CHECK(opened.tree->list(kRootIno, 0, 9).size() == 2);
  CHECK_THROWS_AS((void)opened.tree->list(opened.tree->lookup(kRootIno, "a"), 0, 9), FormatError);
  packs[1].model.entries["a"] = Model();
  CHECK_THROWS_AS(Opened{packs}, FormatError);
}

TEST_CASE("entries that cannot be read hide no others of their folder") {
  for (const char* bad : {"bad/first", "zz/last"}) {
    std::vector<Pack> packs(2);
    for (uint32_t i = 0; i < 2; ++i) packs[i].set = set_of('s', i);
    packs[0].model.entries["a"] = file_model(packs[0].record_count++);
    for (const char* name : {bad, "m", "n", "o"}) {
      packs[1].model.entries[name] = file_model(packs[1].record_count++);
    }
    const Opened opened(packs);
    CHECK(opened.tree->lookup(kRootIno, "a") == 2);
    CHECK(opened.tree->name(opened.tree->lookup(kRootIno, "n")) == "n");
    CHECK(opened.tree->lookup(kRootIno, "none") == 0);
  }
}

TEST_CASE("a shared folder of many entries is listed from any position") {
  std::vector<Pack> packs(7);
  Model all;
  for (uint64_t i = 0; i < 9000; ++i) {
    Pack& pack = packs[i % packs.size()];
    pack.model.entries[std::to_string(i)] = file_model(pack.record_count++);
    all.entries[std::to_string(i)] = Model();
  }
  std::vector<std::string> names;
  for (const auto& [name, entry] : all.entries) names.push_back(name);
  const Opened opened(packs);
  const Tree& tree = *opened.tree;
  const auto check_from = [&](uint64_t start, uint64_t limit) {
    const auto slice = tree.list(kRootIno, start, limit);
    const uint64_t left = names.size() - std::min<uint64_t>(start, names.size());
    REQUIRE(slice.size() == std::min(limit, left));
    for (size_t i = 0; i < slice.size(); ++i) REQUIRE(slice[i].name == names[start + i]);
  };
  check_from(8999, 1);  // no position is known yet
  check_from(0, UINT64_MAX);
  Random random(1);
  for (int i = 0; i < 300; ++i) check_from(random() % 9100, 1 + random() % 30);
  for (uint64_t start = 0; start < 9000; start += 26) check_from(start, 26);
  check_from(1024, 1024);
  check_from(9000, 1);
}

TEST_CASE("a listing may end at the end of a chunk") {
  for (const uint64_t count : {1023, 1024, 1025, 2048}) {
    std::vector<Pack> packs(2);
    for (uint64_t i = 0; i < count; ++i) {
      packs[i % 2].model.entries[std::to_string(i)] = file_model(packs[i % 2].record_count++);
    }
    packs[0].model.entries["~"] = Model();
    packs[1].model.entries["~"] = Model();  // both have it, so the union has one entry less
    const Opened opened(packs);
    CHECK(list_all(*opened.tree, kRootIno, 100).size() == count + 1);
    CHECK(list_all(*opened.tree, kRootIno, 1024).size() == count + 1);
    CHECK(opened.tree->list(kRootIno, count + 1, 1).empty());
  }
}

TEST_CASE("shared folders that are too deep are refused") {
  const auto nested = [](size_t depth) {
    Model root;
    Model* at = &root;
    for (size_t i = 0; i < depth; ++i) at = &at->entries["d"];
    return root;
  };
  std::vector<Pack> packs(2);
  packs[0].model = packs[1].model = nested(1024);
  const Opened opened(packs);
  CHECK(opened.tree->directory_count() == 1025);
  packs[0].model = packs[1].model = nested(1025);
  CHECK_THROWS_AS(Opened{packs}, FormatError);
}

TEST_CASE("a union of one part works, and a union of empty roots") {
  Random random(5);
  std::vector<Pack> packs(1);
  packs[0].model = random_model(random, 100, packs[0].record_count);
  check_union(packs, OnConflict::kError);
  check_union(std::vector<Pack>(3), OnConflict::kError);
}

TEST_CASE("damaged or false parts give faults or a tree without duplicate names") {
  // Duplicates within packs that claim to be one set, and sections changed at random: there are
  // faults, or a tree in which no folder has a name twice.
  const uint64_t seeds = std::max<uint64_t>(seed_count() / 40, 1);
  size_t opened = 0;
  size_t faults = 0;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const TemporaryFolder folder;
    std::vector<std::unique_ptr<IndexedFile>> files;
    std::vector<UnionPart> parts;
    uint64_t first_record = 0;
    uint64_t slots = 0;
    const size_t count = 2 + random() % 3;
    for (size_t i = 0; i < count; ++i) {
      uint64_t record_count = 0;
      uint64_t link_count = 0;
      const Model model = random_model(random, 1 + random() % 30, record_count);
      Sections sections = index_sections(model, record_count, link_count);
      slots += section(sections, Section::kInodes).size() / sizeof(IndexInode);
      for (uint64_t left = random() % 3; left > 0; --left) {
        Bytes& bytes = sections[random() % 3];
        if (bytes.size() < 8) continue;
        const size_t at = random() % (bytes.size() / 4) * 4;
        put(bytes, at,
            random() % 2 == 0 ? static_cast<uint32_t>(random() % 32)
                              : load_le<uint32_t>(view(bytes), random() % (bytes.size() / 4) * 4));
      }
      files.push_back(std::make_unique<IndexedFile>(folder, std::to_string(i) + ".ffr", sections,
                                                    record_count, link_count));
      try {
        parts.push_back({std::make_unique<MappedTree>(*files.back()->index), first_record,
                         files.back()->path, set_of('s', static_cast<uint32_t>(i))});
      } catch (const FormatError&) {  // its root is damaged
      }
      first_record += record_count + 1;
    }
    if (parts.empty()) continue;
    const auto tried = faults_counted(".ffr", faults);
    tried([&] {
      const UnionTree tree(std::move(parts), static_cast<OnConflict>(random() % 3));
      ++opened;
      TreeWalk shown{tree, slots, required, tried};
      shown.has_hidden = true;
      shown.run([](Ino, const Dentry&) {});
    });
  }
  CHECK(opened > seeds / 4);
  CHECK(faults > seeds / 10);
}

TEST_CASE("several threads read a union at once") {
  Random random(1);
  std::vector<Pack> packs(4);
  Model all;
  for (uint64_t i = 0; i < 3000; ++i) {
    Pack& pack = packs[random() % packs.size()];
    const std::string directory = std::to_string(i % 3);
    pack.model.entries[directory].entries[std::to_string(i)] = file_model(pack.record_count++);
  }
  const Opened opened(packs);
  const Tree& tree = *opened.tree;
  std::atomic<size_t> seen{0};
  in_threads(4, [&] {
    for (const Dentry& directory : tree.list(kRootIno, 0, UINT64_MAX)) {
      uint64_t position = 0;
      while (true) {
        const auto entries = tree.list(directory.ino, position, 26);
        if (entries.empty()) break;
        position += entries.size();
        for (const Dentry& entry : entries) {
          if (tree.lookup(directory.ino, entry.name) == entry.ino) ++seen;
        }
      }
    }
  });
  CHECK(seen == 4 * 3000);
}
