// A list in other forms: its files as bytes that identify the list, and its entries as rows.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "entries/entry_list.h"

namespace ffrfs {

// The files of the records [first, first + count). `names`: each name is followed by a slash; where
// the folder changes, its path comes first, between two NULs. Sizes and times are 64-bit numbers.
struct EntryListing {
  EntryListing(const EntryList& list, uint32_t first, uint32_t count);

  std::string names;
  std::string sizes;
  std::string times;
};

// A file, a link, or an empty folder. An empty folder has no name here.
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
