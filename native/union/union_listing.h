// Lists shared directories by position, merged in chunks of 1024 entries. Keeps the latest chunks,
// the cursors of the latest listings, and the last entry of every chunk that was ever passed (8
// bytes), so that a position that was reached once is reached again in the time of one chunk.
//
// Thread-safe: it has a lock, which is not held during calls of the parts.

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
  // Both must outlive this object.
  UnionListing(const UnionParts& parts, const UnionDirectories& directories);

  // The same as Tree::list(), for a shared directory. Throws FormatError if a part's names are not
  // in order, and the errors of the parts.
  [[nodiscard]] std::vector<Dentry> list(Ino directory, uint64_t start, uint64_t limit);

 private:
  // Entries of a directory, by the number of the chunk. Only the last chunk has fewer.
  using Chunk = std::shared_ptr<const std::vector<Dentry>>;
  struct Kept {
    Ino directory;
    uint64_t number;
    Chunk chunk;
  };

  // A cursor that has stopped before the chunk of this number.
  struct Stopped {
    Ino directory;
    uint64_t number;
    std::unique_ptr<UnionCursor> cursor;
  };

  // Returns the number of entries of all parts together.
  [[nodiscard]] uint64_t entry_count(Ino directory) const;
  // Returns nullptr if the listing ends before the chunk.
  [[nodiscard]] Chunk chunk(Ino directory, uint64_t number);
  [[nodiscard]] Chunk find(Ino directory, uint64_t number);
  [[nodiscard]] Chunk make(UnionCursor& cursor) const;
  // Returns a cursor before the chunk of that number; nullptr if no listing has stopped there.
  [[nodiscard]] std::unique_ptr<UnionCursor> take_cursor(Ino directory, uint64_t number);
  // Returns a cursor before the last known chunk up to `number`, which becomes that chunk's number.
  [[nodiscard]] std::unique_ptr<UnionCursor> cursor_near(Ino directory, uint64_t& number);

  const UnionParts& parts_;
  const UnionDirectories& directories_;
  std::mutex mutex_;  // guards all below
  std::list<Kept> kept_;        // most recent first
  std::list<Stopped> cursors_;  // most recent first
  // The last entry of each full chunk, from the first on without a gap.
  std::unordered_map<Ino, std::vector<Ino>> ends_;
};

}  // namespace ffrfs
