// A list in other forms: its files as bytes that identify the list, and its entries as rows.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "entries/entry_list.h"

namespace ffrfs {

// For the records [first, first + count): names, each followed by a slash, and before the first one
// of a folder its path between two NULs; sizes and times as 64-bit numbers.
struct EntryListing {
  EntryListing(const EntryList& list, uint32_t first, uint32_t count);

  std::string names;
  std::string sizes;
  std::string times;
};

// A file; a link; or an empty folder, which has no name.
struct EntryRow {
  uint32_t record = 0;
  uint32_t folder = 0;
  std::string_view name = {};
  uint64_t size = 0;
  uint32_t mode = 0;
  int64_t mtime_ns = 0;
  std::string_view target = {};  // of a link
};

// Returns, for each of these records, the links and empty folders that go with it, its file, and
// those that share it. For a list without records, returns all links and empty folders.
[[nodiscard]] std::vector<EntryRow> entry_rows(const EntryList& list, uint32_t first,
                                               uint32_t count);

}  // namespace ffrfs
