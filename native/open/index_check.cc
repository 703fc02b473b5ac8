#include "open/index_check.h"

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "io/error.h"
#include "open/open_tree.h"
#include "record/index_map.h"
#include "shard/shard_set.h"
#include "tree/mapped_tree.h"

namespace ffrfs {
namespace {

constexpr uint64_t kListCount = 4096;

// Iterates over the entries of a directory; skips symbolic links, which the pickle does not have.
class Entries {
 public:
  Entries(const Tree& tree, Ino directory) : tree_(tree), directory_(directory) { advance(); }

  // Returns nullopt at the end.
  [[nodiscard]] const std::optional<Dentry>& now() const { return now_; }
  [[nodiscard]] const Inode& inode() const { return inode_; }

  void advance() {
    do {
      if (next_ == batch_.size()) {
        batch_ = tree_.list(directory_, start_, kListCount);
        start_ += batch_.size();
        next_ = 0;
        if (batch_.empty()) {
          now_ = std::nullopt;
          return;
        }
      }
      now_ = std::move(batch_[next_++]);
      inode_ = tree_.inode(now_->ino).value();
    } while (inode_.kind == InodeKind::kSymlink);
  }

 private:
  const Tree& tree_;
  const Ino directory_;
  uint64_t start_ = 0;
  std::vector<Dentry> batch_;
  size_t next_ = 0;
  std::optional<Dentry> now_;
  Inode inode_;
};

// Compares two trees, entry by entry.
class Comparison {
 public:
  Comparison(const Tree& pickled, const Tree& mapped) : pickled_(pickled), mapped_(mapped) {}

  [[nodiscard]] std::string run(uint64_t record_count) {
    directories_.emplace_back(kRootIno, kRootIno);
    while (!directories_.empty() && fault_.empty()) {
      const auto [pickled, mapped] = directories_.back();
      directories_.pop_back();
      compare(pickled, mapped);
    }
    for (uint64_t record = 0; record < record_count && fault_.empty(); ++record) {
      if ((pickled_.file_of(record) == 0) != (mapped_.file_of(record) == 0)) {
        fault_ = "the index and the pickle do not agree on whether a file shows record " +
                 std::to_string(record);
      }
    }
    return fault_;
  }

 private:
  void compare(Ino pickled_directory, Ino mapped_directory) {
    Entries pickled(pickled_, pickled_directory);
    Entries mapped(mapped_, mapped_directory);
    while (fault_.empty() && (pickled.now() || mapped.now())) {
      if (!mapped.now() || (pickled.now() && pickled.now()->name < mapped.now()->name)) {
        fault_ = "the pickle has '" + pickled_.path(pickled.now()->ino) + "', the index has not";
      } else if (!pickled.now() || mapped.now()->name < pickled.now()->name) {
        fault_ = "the index has '" + mapped_.path(mapped.now()->ino) + "', the pickle has not";
      } else {
        compare(pickled, mapped);
        pickled.advance();
        mapped.advance();
      }
    }
  }

  void compare(const Entries& pickled, const Entries& mapped) {
    if (describe(pickled.inode()) != describe(mapped.inode())) {
      fault_ = "the pickle says that '" + pickled_.path(pickled.now()->ino) + "' is " +
               describe(pickled.inode()) + ", the index says " + describe(mapped.inode());
    } else if (pickled.inode().is_directory()) {
      directories_.emplace_back(pickled.now()->ino, mapped.now()->ino);
    }
  }

  [[nodiscard]] static std::string describe(const Inode& inode) {
    return inode.is_directory() ? "a directory" : "record " + std::to_string(inode.record);
  }

  const Tree& pickled_;
  const Tree& mapped_;
  std::vector<std::pair<Ino, Ino>> directories_;  // not compared yet
  std::string fault_;
};

std::string find_extent_fault(const FfrecordShard& indexed, const ShardSet& plain) {
  for (uint64_t record = 0; record < plain.count(); ++record) {
    const Extent right = plain.extent(record);
    const Extent found = indexed.extent(record);
    if (found.offset != right.offset || found.size != right.size || found.crc32 != right.crc32) {
      return "the index takes record " + std::to_string(record) + " for another";
    }
  }
  return {};
}

std::unique_ptr<const Tree> read_pickle(const ShardSet& plain, Counters& counters,
                                        std::string& fault) {
  try {
    OpenedTree opened = open_tree(plain, nullptr, counters);
    if (opened.kind == TreeKind::kFolder) return std::move(opened.tree);
    fault = "there is an index, but no pickle";
  } catch (const std::exception& error) {
    if (is_shortage(error)) throw;
    fault = "the pickle: " + text_within(error, plain.shard(0).file().path());
  }
  return nullptr;
}

}  // namespace

std::string find_index_fault(const FfrecordShard& indexed, const ShardSet& plain,
                             Counters& counters) {
  const IndexMap& index = *indexed.index();
  try {
    index.verify();
    std::string fault = find_extent_fault(indexed, plain);
    if (!fault.empty()) return fault;
    const auto pickled = read_pickle(plain, counters, fault);
    if (!pickled) return fault;
    return Comparison(*pickled, MappedTree(index)).run(plain.count() - 1);
  } catch (const std::exception& error) {
    if (is_shortage(error)) throw;
    return text_within(error, index.path());
  }
}

}  // namespace ffrfs
