#include "prefetch/hint.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "tree/subtrees.h"

namespace ffrfs {
namespace {

// Removes the first name from `path` and returns it; "" at the end of the path.
std::string_view take_name(std::string_view& path) {
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  const std::string_view name = path.substr(0, path.find('/'));
  path.remove_prefix(name.size());
  return name;
}

std::optional<Hint> of_record(const Tree& tree, uint64_t record_count, std::string_view digits) {
  uint64_t record = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), record);
  if (error != std::errc{} || end != digits.data() + digits.size() || record >= record_count) {
    return std::nullopt;
  }
  if (tree.subtrees() != nullptr) return Hint{.record = record};
  const Ino ino = tree.file_of(record);
  if (ino == 0) return std::nullopt;  // the record is the index of a packed directory
  return Hint{.record = record, .ino = ino};
}

std::optional<Hint> of_path(const Tree& tree, std::string_view path) {
  Ino ino = kRootIno;
  for (std::string_view name = take_name(path); !name.empty(); name = take_name(path)) {
    if (name == ".") continue;
    ino = tree.lookup(ino, name);
    if (ino == 0) return std::nullopt;
    const Subtrees* const parts = tree.subtrees();
    if (const auto record = parts != nullptr ? parts->record_of(ino) : std::nullopt) {
      path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
      const bool is_of_all = path == "record.bin" || path == "example.json";
      return Hint{.record = *record, .is_of_all = is_of_all};
    }
  }
  const auto inode = tree.inode(ino);
  if (!inode || !inode->is_file()) return std::nullopt;
  return Hint{.record = inode->record, .ino = ino};
}

}  // namespace

std::optional<Hint> find_hint(const Tree& tree, uint64_t record_count, std::string_view text) {
  return text.starts_with('/') ? of_path(tree, text) : of_record(tree, record_count, text);
}

}  // namespace ffrfs
