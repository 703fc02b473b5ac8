#include "tree/tree.h"

namespace ffrfs {

std::string Tree::path(Ino ino) const {
  std::vector<std::string> names;  // from the leaf up
  size_t size = 0;
  for (auto current = inode(ino); current && ino != kRootIno; current = inode(ino)) {
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
