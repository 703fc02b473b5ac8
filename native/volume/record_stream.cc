#include "volume/record_stream.h"

#include <unistd.h>

#include <algorithm>

#include "io/crc.h"
#include "volume/verification.h"

namespace ffrfs {

RecordStream::RecordStream(const ShardSet& shards, const Extent& extent, Counters& counters)
    : shards_(shards), extent_(extent), counters_(counters) {
  const size_t alignment = shards.file_of(extent).alignment();
  const auto piece = static_cast<size_t>(std::min<uint64_t>(extent.size, kPieceSize));
  buffer_ = BufferPool(0).acquire(piece + 2 * alignment);
}

std::span<const std::byte> RecordStream::next() {
  const uint64_t left = extent_.size - position_;
  if (left == 0) {
    check_record(shards_, extent_, crc_, counters_);
    return {};
  }
  const auto size = static_cast<size_t>(std::min<uint64_t>(left, kPieceSize));
  const auto piece = read_piece(extent_.offset + position_, size);
  crc_ = crc32(piece, crc_);
  position_ += size;
  return piece;
}

std::span<const std::byte> RecordStream::read_piece(uint64_t offset, size_t size) {
  const SourceFile& file = shards_.file_of(extent_);
  const auto target = buffer_.first(size);
  if (file.read_cached(offset, target)) {
    counters_.bytes_page_cache.fetch_add(size, std::memory_order_relaxed);
    return target;
  }
  counters_.bytes_storage.fetch_add(size, std::memory_order_relaxed);
  if (const auto direct = file.read_direct(offset, size, buffer_); !direct.empty()) return direct;
  file.read_fully(offset, target);
  return target;
}

}  // namespace ffrfs
