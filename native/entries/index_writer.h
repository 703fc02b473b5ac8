// Writes the mapped index from front to end (its layout is in record/index_layout.h and on the
// format page).
//
// Takes 4 bytes of memory a record and 4 for each 64 KiB of the index, besides the source, whose
// entries are all read four times.
// Not here: reading it (record/index_map.h, tree/mapped_tree.h).

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "record/chunk_checksums.h"
#include "record/index_layout.h"
#include "tree/byte_sink.h"
#include "tree/index_entries.h"

namespace ffrfs {

// The parts of an index that describe its pack, besides the tree.
struct PackDescription {
  uint64_t record_count = 0;                   // including the index record
  std::span<const uint32_t> header_checksums;  // Section::kHeader
  const ChunkChecksums& chunks;
  std::optional<IndexSet> set = std::nullopt;
  // Returns the size of the pack, which may depend on that of the index.
  std::function<uint64_t(uint64_t index_size)> size;
  // The pack's properties that a sidecar has to match; 0 in a pack.
  int64_t mtime_ns = 0;
  uint32_t header_crc = 0;
};

// Throws FormatError if the format's limits are exceeded, and the errors of `sink`.
void write_index(const IndexEntries& source, const PackDescription& pack, const ByteSink& sink);

}  // namespace ffrfs
