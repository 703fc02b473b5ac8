// A walk of a tree that may lie, with all calls that an engine makes: it must be consistent.
//
// Used by doctest's programs and by the fuzz targets. Not here: further promises of one kind of
// tree (see its test), and what a sound tree shows (tree_model.h).

#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tree/tree.h"

namespace ffrfs::test {

// `before`: the name before it in its directory, "" if it is the first.
void check_name(const std::string& name, const std::string& before, const auto& require) {
  require(!name.empty() && name.size() <= 255, "a name of 1 to 255 bytes");
  require(name.find_first_of(std::string_view("/\0", 2)) == std::string::npos,
          "a name without / and NUL");
  require(name != "." && name != "..", "a name that names something");
  require(before < name, "names in order, none twice");
}

// require(holds, what) ends the program unless `holds`. tried(ask) calls ask() and returns whether
// it ended without an error; it catches the errors that are allowed.
template <typename Require, typename Tried> struct TreeWalk {
  const Tree& tree;
  const uint64_t inode_limit;  // no inode above this is shown
  Require require;
  Tried tried;
  bool has_hidden = false;  // subdirectories() also gives entries that a union hides
  std::set<Ino> seen{kRootIno};

  // Calls each(folder, entry) for every entry that is shown.
  void run(const auto& each) {
    std::vector<Ino> folders{kRootIno};
    for (size_t i = 0; i < folders.size(); ++i) {
      const Ino folder = folders[i];
      std::vector<Dentry> entries;
      const bool is_whole = tried([&] { list(folder, entries); });
      std::set<Ino> inner;
      for (const Dentry& entry : entries) {
        each(folder, entry);
        tried([&] { check_lookup(folder, entry, is_whole); });
        tried(
            [&] { require(tree.name(entry.ino) == entry.name, "an inode has its entry's name"); });
        tried([&] { require(tree.path(entry.ino).ends_with(entry.name), "a path ends so, too"); });
        tried([&] { require(tree.target(entry.ino).size() <= 4095, "a target of 4095 bytes"); });
        tried([&] {
          if (shown_inode(folder, entry).is_directory()) inner.insert(entry.ino);
        });
      }
      tried([&] { check_subdirectories(folder, inner, is_whole); });
      tried([&] { (void)tree.lookup(folder, "b"); });
      tried([&] { (void)tree.lookup(folder, std::string(300, 'n')); });
      // List from the middle, which no listing has reached step by step.
      tried([&] { (void)tree.list(folder, entries.size() / 2, 3); });
      folders.insert(folders.end(), inner.begin(), inner.end());
    }
  }

  // Lists in pieces; `entries` gets the entries before an error, too.
  void list(Ino folder, std::vector<Dentry>& entries) {
    while (true) {
      const auto piece = tree.list(folder, entries.size(), 3);
      if (piece.empty()) return;
      require(piece.size() <= 3, "no more than was asked for");
      for (const Dentry& entry : piece) {
        check_name(entry.name, entries.empty() ? "" : entries.back().name, require);
        require(seen.insert(entry.ino).second, "an inode stands in one place");
        entries.push_back(entry);
      }
      require(seen.size() <= inode_limit, "a listing ends");
    }
  }

  void check_lookup(Ino folder, const Dentry& entry, bool is_whole) {
    const Ino found = tree.lookup(folder, entry.name);
    require(found == entry.ino || !is_whole, "a lookup finds what a listing shows");
    require(found == 0 || tree.name(found) == entry.name, "a lookup finds that name");
  }

  Inode shown_inode(Ino folder, const Dentry& entry) {
    const auto inode = tree.inode(entry.ino);
    require(inode && inode->parent == folder, "an entry has its folder for a parent");
    const std::array<Ino, 2> both{kRootIno, entry.ino};
    tried([&] { require(tree.inodes(both).at(1) == inode, "an inode is the same beside others"); });
    return *inode;
  }

  void check_subdirectories(Ino folder, const std::set<Ino>& inner, bool is_whole) {
    for (const Dentry& entry : tree.subdirectories(folder, 0, UINT64_MAX)) {
      if (has_hidden) continue;
      tried([&] {  // a subdirectory whose inode is damaged is not in `inner`
        require(shown_inode(folder, entry).is_directory(), "a subdirectory is a directory");
        require(inner.contains(entry.ino) || !is_whole, "a subdirectory is listed as an entry");
      });
    }
  }
};

template <typename Require, typename Tried>
TreeWalk(const Tree&, uint64_t, Require, Tried) -> TreeWalk<Require, Tried>;

}  // namespace ffrfs::test
