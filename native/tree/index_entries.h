// A tree that is to be written as an index: its entries, breadth-first and sorted, as often as the
// writer asks. Implemented by EntrySlice (a directory that is packed) and PickleTree (a pack that
// has only a pickle).
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
  std::string_view name = {};    // "" for the root
  std::string_view target = {};  // links only
  uint32_t record = 0;      // files only
  uint32_t parent = 0;      // slot of its directory; 0 for the root
  // nullopt if unknown; both are known or neither is.
  std::optional<uint16_t> mode = std::nullopt;  // permissions
  std::optional<int64_t> mtime_ns = std::nullopt;
};

// The entries of a directory have the slots [first, first + entry_count).
struct SourceDirectory {
  uint32_t slot = 0;  // the directory's own
  uint32_t first = 0;
  uint32_t entry_count = 0;
  uint32_t subdirectory_count = 0;
};

class IndexEntries {
 public:
  virtual ~IndexEntries() = default;

  // Slot 0 is the root; the entries of a directory have adjacent slots, sorted by the bytes of
  // their names. Directories are in the order of their slots, and so are their groups of entries.
  [[nodiscard]] virtual uint32_t slot_count() const = 0;
  [[nodiscard]] virtual IndexEntry entry(uint32_t slot) const = 0;

  [[nodiscard]] virtual uint32_t directory_count() const = 0;
  [[nodiscard]] virtual SourceDirectory directory(uint32_t number) const = 0;
};

}  // namespace ffrfs
