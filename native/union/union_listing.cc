#include "union/union_listing.h"

#include <algorithm>
#include <string>

#include "union/union_cursor.h"

namespace ffrfs {
namespace {

constexpr uint64_t kEntriesPerChunk = 1024;
constexpr size_t kKeptMax = 32;        // chunks: 2 MB of short names, 10 MB of the longest
constexpr size_t kCursorMax = 4;       // up to half a megabyte each

template <typename Item> void keep(std::list<Item>& items, Item item, size_t limit) {
  items.push_front(std::move(item));
  if (items.size() > limit) items.pop_back();
}

}  // namespace

UnionListing::UnionListing(const UnionParts& parts, const UnionDirectories& directories)
    : parts_(parts), directories_(directories) {}

std::vector<Dentry> UnionListing::list(Ino directory, uint64_t start, uint64_t limit) {
  std::vector<Dentry> entries;
  while (entries.size() < limit) {
    const uint64_t position = start + entries.size();
    const Chunk found = chunk(directory, position / kEntriesPerChunk);
    const uint64_t place = position % kEntriesPerChunk;
    if (found == nullptr || place >= found->size()) break;
    const auto begin = found->begin() + static_cast<ptrdiff_t>(place);
    const uint64_t wanted = std::min(limit - entries.size(), found->size() - place);
    entries.insert(entries.end(), begin, begin + static_cast<ptrdiff_t>(wanted));
    if (found->size() < kEntriesPerChunk) break;
  }
  return entries;
}

UnionListing::Chunk UnionListing::chunk(Ino directory, uint64_t number) {
  if (Chunk found = find(directory, number)) return found;
  // A position beyond the end is refused here, because finding the end takes a whole listing.
  if (number * kEntriesPerChunk >= entry_count(directory)) return nullptr;
  uint64_t next = number;
  std::unique_ptr<UnionCursor> cursor = take_cursor(directory, next);
  if (cursor == nullptr) cursor = cursor_near(directory, next);
  for (;; ++next) {
    const Chunk made = make(*cursor);
    const bool is_full = made->size() == kEntriesPerChunk;
    const std::lock_guard lock(mutex_);
    if (is_full) {
      std::vector<Ino>& ends = ends_[directory];
      if (ends.size() == next) ends.push_back(made->back().ino);
    }
    if (next == number) {
      keep(kept_, {directory, number, made}, kKeptMax);
      if (is_full) keep(cursors_, {directory, number + 1, std::move(cursor)}, kCursorMax);
      return made;
    }
    if (!is_full) return nullptr;
  }
}

uint64_t UnionListing::entry_count(Ino directory) const {
  uint64_t count = 0;
  for (const Ino member : directories_.members(directory)) {
    count += parts_.inode(member)->entry_count;
  }
  return count;
}

UnionListing::Chunk UnionListing::find(Ino directory, uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(kept_, [&](const Kept& kept) {
    return kept.directory == directory && kept.number == number;
  });
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return found->chunk;
}

std::unique_ptr<UnionCursor> UnionListing::take_cursor(Ino directory, uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(cursors_, [&](const Stopped& stopped) {
    return stopped.directory == directory && stopped.number == number;
  });
  if (found == cursors_.end()) return nullptr;
  std::unique_ptr<UnionCursor> cursor = std::move(found->cursor);
  cursors_.erase(found);
  return cursor;
}

std::unique_ptr<UnionCursor> UnionListing::cursor_near(Ino directory, uint64_t& number) {
  Ino after = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto known = ends_.find(directory);
    number = known == ends_.end() ? 0 : std::min<uint64_t>(number, known->second.size());
    if (number > 0) after = known->second[number - 1];
  }
  return std::make_unique<UnionCursor>(parts_, directories_.members(directory), &UnionParts::list,
                                       after == 0 ? std::string() : parts_.name(after));
}

UnionListing::Chunk UnionListing::make(UnionCursor& cursor) const {
  std::vector<Dentry> entries;
  while (entries.size() < kEntriesPerChunk && cursor.next()) {
    const Ino ino =
        parts_.on_conflict() == OnConflict::kLast ? cursor.inos().back() : cursor.inos().front();
    entries.push_back({cursor.name(), directories_.shown(ino)});
  }
  return std::make_shared<const std::vector<Dentry>>(std::move(entries));
}

}  // namespace ffrfs
