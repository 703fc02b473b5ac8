#include "tree/tree.h"

#include <stdexcept>

#include "io/error.h"

namespace ffrfs {
namespace {

// The limit of writers for directories in a path. A damaged index may nest millions.
constexpr size_t kDepthLimit = 1024;

// Iterates over the directories in a directory, a few at a time.
class Subdirectories {
 public:
  Subdirectories(const Tree& tree, Ino directory) : tree_(&tree), directory_(directory) {}

  // Returns 0 if there are no more, or if the index is damaged.
  [[nodiscard]] Ino next() {
    if (at_ == found_.size() && !fetch()) return 0;
    return found_[at_++];
  }

 private:
  static constexpr uint64_t kBatch = 256;

  [[nodiscard]] bool fetch() {
    at_ = 0;
    found_.clear();
    try {
      for (const Dentry& entry : tree_->subdirectories(directory_, start_, kBatch)) {
        found_.push_back(entry.ino);
      }
    } catch (const std::runtime_error&) {  // FormatError, ChecksumError, StorageError
    }
    start_ += found_.size();
    return !found_.empty();
  }

  const Tree* tree_;
  Ino directory_;
  uint64_t start_ = 0;
  std::vector<Ino> found_;
  size_t at_ = 0;
};

}  // namespace

std::vector<Inode> Tree::inodes(std::span<const Ino> inos) const {
  std::vector<Inode> found;
  found.reserve(inos.size());
  for (const Ino ino : inos) found.push_back(inode(ino).value());
  return found;
}

std::optional<Contents> Tree::contents(Ino ino) const {
  const std::optional<Inode> found = inode(ino);
  if (!found || !found->is_file()) return std::nullopt;
  return Contents{.record = found->record};
}

void Tree::render(Ino ino, std::span<const std::byte>, uint64_t, std::span<std::byte>) const {
  throw RangeError("inode " + std::to_string(ino) + " is not rendered");
}

std::string Tree::path(Ino ino) const {
  std::vector<std::string> names;  // from the leaf up
  size_t size = 0;
  for (auto current = inode(ino); current && ino != kRootIno; current = inode(ino)) {
    if (names.size() > kDepthLimit) throw FormatError("bad index: more than 1024 directories deep");
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

Ino Tree::find_too_deep(Ino top) const {
  if (directory_count() <= kDepthLimit) return 0;
  std::vector<Subdirectories> way;
  way.emplace_back(*this, top);
  while (!way.empty()) {
    const Ino inner = way.back().next();
    if (inner == 0) {
      way.pop_back();
    } else if (way.size() > kDepthLimit) {
      return inner;
    } else {
      way.emplace_back(*this, inner);
    }
  }
  return 0;
}

}  // namespace ffrfs
