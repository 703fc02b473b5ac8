#include "record/chunk_check.h"

#include <algorithm>
#include <string>

#include "io/crc.h"
#include "io/error.h"
#include "record/index_layout.h"
#include "shard/record_checksum.h"

namespace ffrfs {
namespace {

constexpr auto kIndexChunk = static_cast<size_t>(kIndexChunkSize);

}  // namespace

void ChunkCheck::add(std::span<const std::byte> bytes) {
  if (is_empty()) return;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kIndexChunk - chunk_bytes_));
    crc32c_ = crc32c(part, crc32c_);
    chunk_bytes_ += part.size();
    bytes = bytes.subspan(part.size());
    if (chunk_bytes_ == kIndexChunk) end_chunk();
  }
}

void ChunkCheck::end_chunk() {
  const bool is_right = chunk_ < expected_.size() && expected_[chunk_] == crc32c_;
  if (!is_right && !wrong_) wrong_ = chunk_;
  ++chunk_;
  chunk_bytes_ = 0;
  crc32c_ = 0;
}

void ChunkCheck::finish(const ShardSet& shards, const Extent& extent) {
  if (is_empty()) return;
  if (chunk_bytes_ > 0) end_chunk();
  if (!wrong_ && chunk_ < expected_.size()) wrong_ = chunk_;
  if (!wrong_) return;
  throw checksum_error(shards, extent,
                       "the index has a wrong checksum of its bytes at " +
                           std::to_string(*wrong_ * kIndexChunk) +
                           ", though the record's own matches; make the index anew");
}

}  // namespace ffrfs
