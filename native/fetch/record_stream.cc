#include "fetch/record_stream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "shard/record_checksum.h"

namespace ffrfs {
namespace {

// Returns the memory of one piece, with the bytes that an aligned read adds to it.
size_t piece_memory() {
  return BufferPool::capacity_for(RecordStream::kPieceSize + 2 * Buffer::kAlignment);
}

// Returns how many pieces to read ahead. With the one that the caller holds they take at most half
// of the account in flight, but there are always two.
size_t depth_for(const Budget& budget) {
  const size_t pieces = budget.first_limit(Account::kInFlight) / 2 / piece_memory();
  return std::clamp<size_t>(pieces, 2, RecordStream::kDepthMax + 1) - 1;
}

}  // namespace

size_t RecordStream::memory_for(Fetcher& fetcher) {
  return (depth_for(fetcher.budget()) + 1) * piece_memory();
}

RecordStream::RecordStream(Fetcher& fetcher, const Extent& extent, Reservation memory)
    : fetcher_(fetcher),
      extent_(extent),
      memory_(memory.size() > 0
                  ? std::move(memory)
                  : fetcher.budget().reserve(Account::kInFlight, memory_for(fetcher))),
      depth_(depth_for(fetcher.budget())),
      // No AIO: setting it up and tearing it down takes longer than reading most records.
      port_(fetcher.queue(), ReadPort::Aio::kNone) {}

std::span<const std::byte> RecordStream::next() {
  if (position_ == extent_.size) {
    std::array<std::byte, Extent::kTrailerSizeMax> memory;
    const auto trailer = std::span(memory).first(extent_.trailer_size());
    fetcher_.shards().file_of(extent_).read_fully(extent_.offset + extent_.size, trailer);
    check_record(fetcher_.shards(), extent_, crc_, trailer, fetcher_.counters());
    return {};
  }
  const size_t size = piece_size(position_);
  if (ahead_.empty() && !read_cached(size)) {
    // The piece has to come from storage: read some that follow at the same time.
    for (uint64_t at = position_; at < extent_.size && ahead_.size() < depth_;
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
  if (piece_.buffer.capacity() < size) piece_.buffer = fetcher_.buffers().acquire(size);
  piece_.bytes = piece_.buffer.first(size);
  return fetcher_.read_cached(extent_, extent_.offset + position_, piece_.buffer.first(size));
}

void RecordStream::submit(uint64_t position) {
  const size_t size = piece_size(position);
  fetcher_.counters().bytes_storage.fetch_add(size, std::memory_order_relaxed);
  auto ahead = std::make_shared<Ahead>();
  ahead_.push_back(ahead);
  port_.submit(fetcher_.shards().file_of(extent_), extent_.offset + position, size,
               [ahead](RawBytes raw) {
    ahead->raw = std::move(raw);
    ahead->arrived = true;
  });
}

void RecordStream::wait_for_piece() {
  const std::shared_ptr<Ahead> first = ahead_.front();
  while (!first->arrived) {
    port_.wait_checked();
    port_.poll();
  }
  ahead_.pop_front();
  if (first->raw.error) std::rethrow_exception(first->raw.error);
  piece_ = std::move(first->raw);
  const uint64_t end = position_ + piece_.bytes.size() + ahead_.size() * kPieceSize;
  if (end < extent_.size) submit(end);
}

}  // namespace ffrfs
