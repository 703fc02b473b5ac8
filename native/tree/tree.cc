#include "tree/tree.h"

#include "io/error.h"

namespace ffrfs {
namespace {

// Folders in a path, as writers have it. An index that lies may nest them by the million.
constexpr size_t kDepthLimit = 1024;

}  // namespace

std::vector<Inode> Tree::inodes(std::span<const Ino> inos) const {
  std::vector<Inode> found;
  found.reserve(inos.size());
  for (const Ino ino : inos) found.push_back(inode(ino).value());
  return found;
}

std::string Tree::path(Ino ino) const {
  std::vector<std::string> names;  // from the leaf up
  size_t size = 0;
  for (auto current = inode(ino); current && ino != kRootIno; current = inode(ino)) {
    if (names.size() > kDepthLimit) throw FormatError("bad index: more than 1024 folders deep");
    names.push_back(name(ino));
    size += names.back().size() + 1;
    ino = current->parent;
  }
  std::string path;
  path.reserve(size);
  for (auto part = names.rbegin(); part != names.rend(); ++part) {
    if (!path.empty()) path += '/';
    path += *part;
  }
  return path;
}

}  // namespace ffrfs
