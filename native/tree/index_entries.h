// A tree on its way to the disk: what an index tells, entry by entry, breadth-first and
// sorted, as often as a writer asks. Sources are a ManifestSlice (of a folder that is
// packed) and a PickleTree (of a pack that has only a pickle).
//
// Immutable while it is written.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tree/tree.h"

namespace ffrfs {

struct IndexEntry {
  InodeKind kind = InodeKind::kFile;
  std::string_view name = {};    // of the root: ""
  std::string_view target = {};  // links only
  uint32_t record = 0;      // files only
  uint32_t parent = 0;      // slot of its directory; of the root: 0
  // nullopt: unknown. Both are or neither.
  std::optional<uint16_t> mode = std::nullopt;  // permissions
  std::optional<int64_t> mtime_ns = std::nullopt;
};

// The entries of a directory take the slots [first, first + entry_count).
struct SourceDirectory {
  uint32_t slot = 0;  // its own
  uint32_t first = 0;
  uint32_t entry_count = 0;
  uint32_t subdirectory_count = 0;
};

class IndexEntries {
 public:
  virtual ~IndexEntries() = default;

  // Slot 0 is the root; the entries of a directory stand side by side, sorted by the bytes
  // of their names, in the order of the directories, which is that of their slots.
  [[nodiscard]] virtual uint32_t slot_count() const = 0;
  [[nodiscard]] virtual IndexEntry entry(uint32_t slot) const = 0;

  [[nodiscard]] virtual uint32_t directory_count() const = 0;
  [[nodiscard]] virtual SourceDirectory directory(uint32_t number) const = 0;
};

}  // namespace ffrfs
