// The listings of shared directories, by position: merged in chunks of 1024 entries. The
// last ones are kept, and where the last listings stopped; and of every chunk that was ever
// passed where it ended (8 bytes), so that a position that was reached once is reached again
// in the time of one chunk.
//
// Any thread: a lock, which is not held while the parts are asked.

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tree/tree.h"
#include "union/union_cursor.h"
#include "union/union_directories.h"
#include "union/union_part.h"

namespace ffrfs {

class UnionListing {
 public:
  // Both must outlive this.
  UnionListing(const UnionParts& parts, const UnionDirectories& directories);

  // Of all parts together.
  [[nodiscard]] uint64_t entry_count(Ino directory) const;
  // As Tree::list(), of a directory that is shared. Throws FormatError if a part's names
  // are not in order, and what the parts throw.
  [[nodiscard]] std::vector<Dentry> list(Ino directory, uint64_t start, uint64_t limit);

  [[nodiscard]] uint64_t memory_bytes();

 private:
  // Entries of a directory, by the number of the chunk. The last has fewer than others.
  using Chunk = std::shared_ptr<const std::vector<Dentry>>;
  struct Kept {
    Ino directory;
    uint64_t number;
    Chunk chunk;
  };

  // Where a listing stopped: before the chunk of this number.
  struct Stopped {
    Ino directory;
    uint64_t number;
    std::unique_ptr<UnionCursor> cursor;
  };

  // nullptr: the listing ends before.
  [[nodiscard]] Chunk chunk(Ino directory, uint64_t number);
  [[nodiscard]] Chunk find(Ino directory, uint64_t number);
  [[nodiscard]] Chunk make(UnionCursor& cursor) const;
  // Before the chunk of that number; nullptr: no listing stopped there.
  [[nodiscard]] std::unique_ptr<UnionCursor> take_cursor(Ino directory, uint64_t number);
  // The same of the last number, up to this one, whose place is known; `number` becomes it.
  [[nodiscard]] std::unique_ptr<UnionCursor> cursor_near(Ino directory, uint64_t& number);

  const UnionParts& parts_;
  const UnionDirectories& directories_;
  std::mutex mutex_;  // guards all below
  std::list<Kept> kept_;        // most recent first
  std::list<Stopped> cursors_;  // the same
  // The last entry of each full chunk, from the first on without a gap.
  std::unordered_map<Ino, std::vector<Ino>> ends_;
};

}  // namespace ffrfs
