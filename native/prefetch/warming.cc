#include "prefetch/warming.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "tree/subtrees.h"

namespace ffrfs {
namespace {

constexpr uint64_t kEntriesAtOnce = 4096;

class Records {
 public:
  Records(const Tree& tree, uint64_t count)
      : tree_(tree), found_{std::vector<bool>(static_cast<size_t>(count)), {}} {}

  void add(Ino ino) {
    std::vector<Ino> folders;
    note(ino, folders);
    while (!folders.empty()) {
      const Ino folder = folders.back();
      folders.pop_back();
      for (uint64_t start = 0;; start += kEntriesAtOnce) {
        const std::vector<Dentry> entries = list(folder, start);
        for (const Dentry& entry : entries) note(entry.ino, folders);
        if (entries.size() < kEntriesAtOnce) break;
      }
    }
  }
  [[nodiscard]] WarmedPart take() {
    std::ranges::sort(found_.copies);
    return std::move(found_);
  }

 private:
  [[nodiscard]] std::vector<Dentry> list(Ino folder, uint64_t start) const {
    try {
      return tree_.list(folder, start, kEntriesAtOnce);
    } catch (const std::exception&) {  // its readers get the error
      return {};
    }
  }
  void note(Ino ino, std::vector<Ino>& folders) {
    const Subtrees* const subtrees = tree_.subtrees();
    const auto record = subtrees != nullptr ? subtrees->record_of(ino) : std::nullopt;
    if (record) return set(*record, 0);
    try {
      const std::optional<Inode> inode = tree_.inode(ino);
      if (!inode) return;
      if (inode->is_directory()) folders.push_back(ino);
      if (inode->is_file()) set(inode->record, tree_.file_of(inode->record) == ino ? 0 : ino);
    } catch (const std::exception&) {  // its readers get the error
    }
  }
  void set(uint64_t record, Ino copy) {
    if (record >= found_.records.size()) return;
    if (copy == 0) {
      found_.records[static_cast<size_t>(record)] = true;
    } else {
      found_.copies.emplace_back(record, copy);
    }
  }

  const Tree& tree_;
  WarmedPart found_;
};

}  // namespace

WarmedPart records_below(const Tree& tree, uint64_t record_count, Ino ino) {
  Records records(tree, record_count);
  records.add(ino);
  return records.take();
}

}  // namespace ffrfs
