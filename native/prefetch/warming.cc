#include "prefetch/warming.h"

#include <exception>
#include <optional>

#include "tree/subtrees.h"

namespace ffrfs {
namespace {

constexpr uint64_t kEntriesAtOnce = 4096;

class Records {
 public:
  Records(const Tree& tree, uint64_t count) : tree_(tree), found_(static_cast<size_t>(count)) {}

  void add(Ino ino) {
    std::vector<Ino> folders;
    note(ino, folders);
    while (!folders.empty()) {
      const Ino folder = folders.back();
      folders.pop_back();
      for (uint64_t start = 0;; start += kEntriesAtOnce) {
        const std::vector<Dentry> entries = tree_.list(folder, start, kEntriesAtOnce);
        for (const Dentry& entry : entries) note(entry.ino, folders);
        if (entries.size() < kEntriesAtOnce) break;
      }
    }
  }
  [[nodiscard]] std::vector<bool> take() { return std::move(found_); }

 private:
  void note(Ino ino, std::vector<Ino>& folders) {
    const Subtrees* const subtrees = tree_.subtrees();
    const auto record = subtrees != nullptr ? subtrees->record_of(ino) : std::nullopt;
    if (record) return set(*record);
    const std::optional<Inode> inode = tree_.inode(ino);
    if (!inode) return;
    if (inode->is_directory()) folders.push_back(ino);
    if (inode->is_file()) set(inode->record);
  }
  void set(uint64_t record) {
    if (record < found_.size()) found_[static_cast<size_t>(record)] = true;
  }

  const Tree& tree_;
  std::vector<bool> found_;
};

}  // namespace

std::vector<bool> records_below(const Tree& tree, uint64_t record_count, Ino ino) {
  Records records(tree, record_count);
  try {
    records.add(ino);
  } catch (const std::exception&) {  // its readers get the error
  }
  return records.take();
}

}  // namespace ffrfs
