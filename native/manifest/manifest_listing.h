// A list for others than packs: its files as bytes, which say which list it is, and as rows.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"

namespace ffrfs {

// Of the records [first, first + count): names, each with a slash behind it, and before the first
// one of a folder its path between two NULs; sizes and times as numbers of 64 bits.
struct ManifestListing {
  ManifestListing(const Manifest& list, uint32_t first, uint32_t count);

  std::string names;
  std::string sizes;
  std::string times;
};

// A file; a link; or an empty folder, which has no name.
struct ManifestRow {
  uint32_t record = 0;
  uint32_t folder = 0;
  std::string_view name;
  uint64_t size = 0;
  uint32_t mode = 0;
  int64_t mtime_ns = 0;
  std::string_view target;  // of a link
};

// Of these records, each: what goes with it, its file, those that share it. Of a list without
// records what there is.
[[nodiscard]] std::vector<ManifestRow> manifest_rows(const Manifest& list, uint32_t first,
                                                     uint32_t count);

}  // namespace ffrfs
