#include "tree/flat_tree.h"

#include <algorithm>
#include <charconv>

namespace ffrfs {
namespace {

constexpr size_t kDigitsMin = 9;

size_t digits_for(uint64_t record_count) {
  if (record_count == 0) return kDigitsMin;
  return std::max(kDigitsMin, std::to_string(record_count - 1).size());
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

FlatTree::FlatTree(uint64_t record_count)
    : count_(record_count), digits_(digits_for(record_count)) {}

std::optional<Inode> FlatTree::inode(Ino ino) const {
  if (ino == kRootIno) return Inode{.kind = InodeKind::kDirectory, .entry_count = count_};
  if (!is_file(ino)) return std::nullopt;
  return Inode{.record = ino - kFirstIno};
}

Ino FlatTree::lookup(Ino parent, std::string_view name) const {
  if (parent != kRootIno || name.size() != digits_) return 0;
  if (!std::all_of(name.begin(), name.end(), is_digit)) return 0;
  uint64_t record = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), record);
  if (parsed.ec != std::errc{}) return 0;  // 20 digits that overflow
  return file_of(record);
}

std::vector<Dentry> FlatTree::list(Ino directory, uint64_t start, uint64_t limit) const {
  std::vector<Dentry> entries;
  if (directory != kRootIno || start >= count_) return entries;
  const uint64_t end = start + std::min(limit, count_ - start);
  entries.reserve(end - start);
  for (uint64_t record = start; record < end; ++record) {
    entries.push_back({name_of(record), record + kFirstIno});
  }
  return entries;
}

std::string FlatTree::name(Ino ino) const {
  return is_file(ino) ? name_of(ino - kFirstIno) : std::string();
}

Ino FlatTree::file_of(uint64_t record) const { return record < count_ ? record + kFirstIno : 0; }

std::string FlatTree::name_of(uint64_t record) const {
  const std::string number = std::to_string(record);
  return std::string(digits_ - number.size(), '0') + number;
}

}  // namespace ffrfs
