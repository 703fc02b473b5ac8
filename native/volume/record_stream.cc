#include "volume/record_stream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "volume/verification.h"

namespace ffrfs {

RecordStream::RecordStream(const ShardSet& shards, const Extent& extent, Counters& counters)
    : shards_(shards),
      extent_(extent),
      counters_(counters),
      buffers_((kDepth + 1) * kPieceSize),
      // No AIO: to set it up and down takes longer than most records.
      queue_(buffers_, ReadQueue::Aio::kNone) {}

std::span<const std::byte> RecordStream::next() {
  if (position_ == extent_.size) {
    std::array<std::byte, Extent::kTrailerSizeMax> memory;
    const auto trailer = std::span(memory).first(extent_.trailer_size());
    shards_.file_of(extent_).read_fully(extent_.offset + extent_.size, trailer);
    check_record(shards_, extent_, crc_, trailer, counters_);
    return {};
  }
  const size_t size = piece_size(position_);
  if (ahead_.empty() && !read_cached(size)) {
    // It has to be waited for: then let some that follow come at the same time.
    for (uint64_t at = position_; at < extent_.size && ahead_.size() < kDepth;
         at += piece_size(at)) {
      submit(at);
    }
  }
  if (!ahead_.empty()) wait_for_piece();
  crc_ = record_crc(extent_, piece_.bytes, crc_);
  position_ += size;
  return piece_.bytes;
}

size_t RecordStream::piece_size(uint64_t position) const {
  return static_cast<size_t>(std::min<uint64_t>(extent_.size - position, kPieceSize));
}

bool RecordStream::read_cached(size_t size) {
  if (piece_.buffer.capacity() < size) piece_.buffer = buffers_.acquire(size);
  piece_.bytes = piece_.buffer.first(size);
  if (!shards_.file_of(extent_).read_cached(extent_.offset + position_, piece_.buffer.first(size))) {
    return false;
  }
  counters_.bytes_page_cache.fetch_add(size, std::memory_order_relaxed);
  return true;
}

void RecordStream::submit(uint64_t position) {
  const size_t size = piece_size(position);
  counters_.bytes_storage.fetch_add(size, std::memory_order_relaxed);
  auto ahead = std::make_shared<Ahead>();
  ahead_.push_back(ahead);
  queue_.submit(shards_.file_of(extent_), extent_.offset + position, size,
                [ahead](RawBytes raw) {
                  ahead->raw = std::move(raw);
                  ahead->arrived = true;
                });
}

void RecordStream::wait_for_piece() {
  const std::shared_ptr<Ahead> first = ahead_.front();
  while (!first->arrived) {
    queue_.wait();
    queue_.poll();
  }
  ahead_.pop_front();
  if (first->raw.error) std::rethrow_exception(first->raw.error);
  piece_ = std::move(first->raw);
  const uint64_t end = position_ + piece_.bytes.size() + ahead_.size() * kPieceSize;
  if (end < extent_.size) submit(end);
}

}  // namespace ffrfs
