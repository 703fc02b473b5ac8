#include "union/union_conflicts.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "io/error.h"
#include "tree/name.h"
#include "union/union_cursor.h"

namespace ffrfs {
namespace {

// The range of names in one part's directory.
struct Range {
  std::string first;
  std::string last;
  Ino directory = 0;
};

std::vector<Range> ranges_of(const UnionParts& parts, std::span<const Ino> directories) {
  std::vector<Range> ranges;
  for (const Ino directory : directories) {
    const std::optional<Inode> inode = parts.inode(directory);
    if (!inode || inode->entry_count == 0) continue;
    const auto first = parts.list(directory, 0, 1);
    const auto last = parts.list(directory, inode->entry_count - 1, 1);
    if (first.empty() || last.empty()) continue;
    ranges.push_back({first[0].name, last[0].name, directory});
  }
  std::ranges::sort(ranges, {}, &Range::first);
  return ranges;
}

const char* kind_name(const Inode& inode) {
  switch (inode.kind) {
    case InodeKind::kFile: return "a file";
    case InodeKind::kDirectory: return "a directory";
    case InodeKind::kSymlink: return "a symbolic link";
  }
  return "something";
}

[[noreturn]] void refuse(const UnionParts& parts, Ino one, Ino other) {
  if (UnionParts::number_of(one) > UnionParts::number_of(other)) std::swap(one, other);
  const UnionPart& first = parts.part_of(one);
  const UnionPart& second = parts.part_of(other);
  const Ino own = UnionParts::own(one);
  throw FormatError(
      first.pack + " and " + second.pack + ": both have " + in_quotes(first.tree->path(own)) +
      ", " + kind_name(first.tree->inode(own).value()) + " and " +
      kind_name(parts.inode(other).value()) + "; choose one with --on-conflict first or last");
}

bool is_one_set(const UnionParts& parts, std::span<const Ino> inos) {
  return std::ranges::all_of(inos,
                             [&](Ino ino) { return parts.set_of(ino) == parts.set_of(inos[0]); });
}

// `inos`: the entries of one name.
void check_name(const UnionParts& parts, std::span<const Ino> inos) {
  const auto is_of_others = [&](Ino ino) { return parts.set_of(ino) != parts.set_of(inos[0]); };
  const auto stranger = std::ranges::find_if(inos, is_of_others);
  if (stranger == inos.end()) return;
  for (const Ino ino : inos) {
    if (!parts.inode(ino).value().is_directory()) {
      refuse(parts, ino, is_of_others(ino) ? inos[0] : *stranger);
    }
  }
}

void check_names(const UnionParts& parts, std::vector<Ino> directories) {
  if (is_one_set(parts, directories)) return;
  std::ranges::sort(directories);
  UnionCursor cursor(parts, directories, &UnionParts::list);
  while (cursor.next()) check_name(parts, cursor.inos());
}

}  // namespace

void refuse_conflicts(const UnionParts& parts, const UnionDirectories& directories) {
  for (size_t number = 0; number < directories.count(); ++number) {
    const std::span<const Ino> members = directories.members_of(number);
    if (is_one_set(parts, members)) continue;
    const std::vector<Range> ranges = ranges_of(parts, members);
    // Groups of directories whose ranges overlap, directly or through one between them.
    for (size_t begin = 0; begin < ranges.size();) {
      std::vector<Ino> overlapping{ranges[begin].directory};
      const std::string* last = &ranges[begin].last;
      size_t end = begin + 1;
      for (; end < ranges.size() && ranges[end].first <= *last; ++end) {
        overlapping.push_back(ranges[end].directory);
        last = &std::max(*last, ranges[end].last);
      }
      check_names(parts, std::move(overlapping));
      begin = end;
    }
  }
}

}  // namespace ffrfs
