// Models of trees: random ones, and those of a pickle; and the check that a tree equals its model.

#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tree/tree.h"
#include "tree/tree_builder.h"

namespace ffrfs::test {

struct Model {
  InodeKind kind = InodeKind::kDirectory;
  uint64_t record = 0;  // of a file
  std::string target;   // of a link
  std::optional<uint16_t> mode = 0755;
  std::optional<int64_t> mtime_ns = 0;
  std::map<std::string, Model> entries;  // of a directory; a std::map sorts by bytes

  [[nodiscard]] bool is_directory() const { return kind == InodeKind::kDirectory; }
  [[nodiscard]] uint64_t subdirectory_count() const {
    uint64_t count = 0;
    for (const auto& [name, entry] : entries) count += entry.is_directory() ? 1 : 0;
    return count;
  }
  // Return how many entries of this kind are in the whole tree, this entry included.
  [[nodiscard]] uint64_t count(InodeKind of) const {
    uint64_t found = kind == of ? 1 : 0;
    for (const auto& [name, entry] : entries) found += entry.count(of);
    return found;
  }
};

inline Model file_model(uint64_t record) {
  return {.kind = InodeKind::kFile, .record = record, .target = {}, .mode = 0644, .entries = {}};
}

inline std::string random_name(std::mt19937_64& random) {
  static const std::string kLetters("ab\x01\x7f\x80\xff.", 7);
  std::string name;
  const size_t size = random() % 20 == 0 ? 255 : 1 + random() % 4;
  while (name.size() < size) name += kLetters[random() % kLetters.size()];
  return name == "." || name == ".." ? "dots" : name;
}

// Return the model without modes and times, which a pickle does not have.
inline Model pickled(Model model) {
  model.mode = std::nullopt;
  model.mtime_ns = std::nullopt;
  for (auto& [name, entry] : model.entries) entry = pickled(std::move(entry));
  return model;
}

// Return `count` entries or a few fewer. Files have the records from 0 on; one in ten shares the
// record of an earlier file. About one entry in ten is a link, if there may be links.
inline Model random_model(std::mt19937_64& random, size_t count, uint64_t& record_count,
                          bool has_links = true) {
  Model root;
  std::vector<Model*> directories{&root};
  for (size_t made = 0; made < count; ++made) {
    Model* const parent = directories[random() % directories.size()];
    const auto [entry, is_new] = parent->entries.try_emplace(random_name(random));
    if (!is_new) continue;
    Model& model = entry->second;
    model.mode = static_cast<uint16_t>(random() % 01000);
    model.mtime_ns = static_cast<int64_t>(random());
    const uint64_t kind = random() % 10;
    if (kind < 3) {
      directories.push_back(&model);  // a map does not move its values
    } else if (kind == 3 && has_links) {
      model.kind = InodeKind::kSymlink;
      model.target = std::string(1 + random() % (random() % 20 == 0 ? 4095 : 30), 't');
    } else {
      model.kind = InodeKind::kFile;
      const bool is_shared = record_count > 0 && random() % 10 == 0;
      model.record = is_shared ? random() % record_count : record_count++;
    }
  }
  return root;
}

// Adds the entries in the order of their names, or shuffled if there is `random`.
inline void add_entries(TreeBuilder& builder, TreeBuilder::DirectoryId id, const Model& model,
                        std::mt19937_64* random = nullptr) {
  std::vector<const std::pair<const std::string, Model>*> entries;
  for (const auto& entry : model.entries) entries.push_back(&entry);
  if (random != nullptr) std::shuffle(entries.begin(), entries.end(), *random);
  for (const auto* const named : entries) {
    const auto& [name, entry] = *named;
    if (entry.is_directory()) {
      const auto directory = builder.add_directory();
      builder.place_directory(id, builder.add_name(name), directory);
      add_entries(builder, directory, entry, random);
    } else {
      builder.place_file(id, builder.add_name(name), static_cast<int64_t>(entry.record));
    }
  }
}

inline std::unique_ptr<PickleTree> parsed(const Model& model, uint64_t record_count,
                                          std::mt19937_64* random = nullptr) {
  TreeBuilder builder("packed.ffr", record_count);
  add_entries(builder, builder.add_directory(), model, random);
  return builder.finish();
}

inline std::vector<Dentry> list_all(const Tree& tree, Ino directory, uint64_t limit) {
  std::vector<Dentry> all;
  while (true) {
    const auto slice = tree.list(directory, all.size(), limit);
    REQUIRE(slice.size() <= limit);
    if (slice.empty()) return all;
    all.insert(all.end(), slice.begin(), slice.end());
  }
}

// How exact a directory's counts are. kShared: its entry count may be too high, where packs share
// the directory. kHidden: so may its subdirectory count, where an entry hides another.
enum class Counts { kExact, kShared, kHidden };

// Checks that a tree equals a model.
class TreeCheck {
 public:
  explicit TreeCheck(const Tree& tree, Counts counts = Counts::kExact)
      : tree_(tree), counts_(counts) {}

  void check(const Model& root) { check(kRootIno, root, kRootIno, ""); }

  std::set<Ino> seen;
  std::map<uint64_t, Ino> first_of;  // record → its lowest inode

 private:
  void check(Ino ino, const Model& model, Ino parent, const std::string& path) {
    CAPTURE(path);
    const Inode inode = tree_.inode(ino).value();
    REQUIRE(inode.kind == model.kind);
    REQUIRE(inode.parent == parent);
    REQUIRE(inode.mode == model.mode);
    REQUIRE(inode.mtime_ns == model.mtime_ns);
    REQUIRE(tree_.path(ino) == path);
    REQUIRE(tree_.name(ino) == path.substr(path.rfind('/') + 1));
    REQUIRE(tree_.target(ino) == model.target);
    REQUIRE(ino < Ino{1} << 56);
    REQUIRE(seen.insert(ino).second);
    if (model.kind == InodeKind::kSymlink) REQUIRE(inode.size == model.target.size());
    if (model.is_directory()) return check_directory(ino, inode, model, path);
    REQUIRE(tree_.lookup(ino, "a") == 0);
    REQUIRE(tree_.list(ino, 0, 9).empty());
    REQUIRE(tree_.subdirectories(ino, 0, 9).empty());
    if (model.kind != InodeKind::kFile) return;
    REQUIRE(inode.record == model.record);
    Ino& first = first_of.emplace(model.record, ino).first->second;
    first = std::min(first, ino);
  }

  void check_directory(Ino ino, const Inode& inode, const Model& model, const std::string& path) {
    std::vector<Dentry> entries;
    std::vector<Dentry> directories;
    for (const auto& [name, entry] : model.entries) {
      entries.push_back({name, tree_.lookup(ino, name)});
      REQUIRE(entries.back().ino != 0);
      if (entry.is_directory()) directories.push_back(entries.back());
    }
    check_lookups(ino, model);
    check_slices(entries,
                 [&](uint64_t start, uint64_t limit) { return tree_.list(ino, start, limit); });
    if (counts_ == Counts::kExact) REQUIRE(inode.entry_count == entries.size());
    if (counts_ != Counts::kHidden) {
      REQUIRE(inode.subdirectory_count == directories.size());
      check_slices(directories, [&](uint64_t start, uint64_t limit) {
        return tree_.subdirectories(ino, start, limit);
      });
    }
    std::vector<Ino> inos(entries.size());
    std::ranges::transform(entries, inos.begin(), &Dentry::ino);
    const std::vector<Inode> inodes = tree_.inodes(inos);
    REQUIRE(inodes.size() == inos.size());
    for (size_t i = 0; i < inos.size(); ++i) REQUIRE(inodes[i] == tree_.inode(inos[i]));
    for (const Dentry& entry : entries) {
      check(entry.ino, model.entries.at(entry.name), ino,
            path.empty() ? entry.name : path + "/" + entry.name);
    }
  }

  void check_lookups(Ino ino, const Model& model) {
    std::set<std::string> tried = {"", ".", "..", "a/b", std::string(256, 'a')};
    for (const auto& [name, entry] : model.entries) {
      tried.insert({name + "a", name + '\0', name.substr(1), name.substr(0, name.size() - 1)});
    }
    for (const std::string& name : tried) {
      REQUIRE((tree_.lookup(ino, name) != 0) == model.entries.contains(name));
    }
  }

  // Lists one after the other, and from any position, as after a seekdir().
  void check_slices(const std::vector<Dentry>& expected, const auto& list) {
    const auto check_slice = [&](uint64_t start, uint64_t limit) {
      const auto slice = list(start, limit);
      const uint64_t left = expected.size() - std::min<uint64_t>(start, expected.size());
      REQUIRE(slice.size() == std::min(limit, left));
      for (size_t i = 0; i < slice.size(); ++i) {
        REQUIRE(slice[i].name == expected[start + i].name);
        REQUIRE(slice[i].ino == expected[start + i].ino);
      }
      return slice.size();
    };
    for (const uint64_t limit : {uint64_t{1}, uint64_t{3}, uint64_t{7}, UINT64_MAX}) {
      uint64_t start = 0;
      while (const uint64_t count = check_slice(start, limit)) start += count;
    }
    for (int i = 0; i < 4; ++i) check_slice(random_() % (expected.size() + 2), 5);
    check_slice(UINT64_MAX, 1);
    check_slice(0, 0);
  }

  const Tree& tree_;
  const Counts counts_;
  std::mt19937_64 random_{0};
};

}  // namespace ffrfs::test
