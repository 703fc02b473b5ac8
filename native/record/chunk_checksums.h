// The CRC-32C of each 1 MiB of the records that are larger than that, so that a part of such a
// record can be verified alone.
//
// Not here: the record's own checksum, which covers all of it (shard/extent.h).

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "record/index_layout.h"

namespace ffrfs {

class ChunkChecksums {
 public:
  // Makes room for the checksums of a record; small records have none. Records must be added in
  // ascending order.
  void add(uint64_t record, uint64_t record_size) {
    if (record_size <= kIndexChunkSize) return;
    records_.push_back({record, checksums_.size()});
    checksums_.resize(checksums_.size() + record_chunk_count(record_size));
  }

  // Returns the checksum of chunk number `chunk` of a record that was added. Several threads may
  // fill in checksums at once, each those of other chunks.
  [[nodiscard]] uint32_t& at(uint64_t record, uint64_t chunk) {
    const auto found = std::ranges::lower_bound(records_, record, {}, &ChunkedRecord::record);
    return checksums_.at(found->first_chunk + chunk);
  }

  [[nodiscard]] std::span<const ChunkedRecord> records() const { return records_; }
  [[nodiscard]] std::span<const uint32_t> checksums() const { return checksums_; }

 private:
  std::vector<ChunkedRecord> records_;
  std::vector<uint32_t> checksums_;
};

}  // namespace ffrfs
