#include "prefetch/region_pass.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>

#include "io/error.h"
#include "io/source.h"
#include "prefetch/far_files.h"
#include "shard/record_checksum.h"

namespace ffrfs {
namespace {

constexpr uint64_t kGapMax = 64 << 10;  // between two records that are read together
constexpr uint64_t kPieceBytes = 128 << 10;
constexpr double kWarmingPart = 0.5;  // share of the room in flight, as for batches ahead of need

uint64_t end_of(const Extent& extent) {
  return extent.offset + extent.size + extent.trailer_size();
}

}  // namespace

ReadAround::Outcome RegionPass::run(const Region& region) {
  outcome_ = {};
  is_warming_ = region.warmed != nullptr;
  try {
    const std::vector<Neighbour> neighbours = neighbours_of(region);
    const std::vector<Piece> pieces = cut(neighbours);
    // Requests all pieces at once, because a disk or a server can work on many of them.
    for (const Piece& piece : pieces) {
      if (!piece.is_cached) piece.file->will_need(piece.begin, piece.size);
    }
    for (const Piece& piece : pieces) {
      try {
        read_piece(piece);
      } catch (const StorageError&) {  // its readers get the error
      }
    }
  } catch (const std::exception&) {  // the index is far
    outcome_.is_cut = true;
  }
  return outcome_;
}

std::vector<RegionPass::Neighbour> RegionPass::neighbours_of(const Region& region) const {
  std::vector<Neighbour> found;
  const uint64_t size_max = is_warming_ ? kWholeRecordSize : ReadAround::kRegionBytes;
  found.reserve(static_cast<size_t>(region.end - region.begin));
  for (uint64_t record = region.begin; record < region.end; ++record) {
    std::span<const WarmedPart::Copy> copies;
    if (is_warming_) copies = region.warmed->copies_of(record, record + 1);
    const bool is_first = is_warming_ ? region.warmed->records[record] : !around_.is_done(record);
    if (!is_first && copies.empty()) continue;
    const auto extent = find_extent(fetcher_.shards(), record);
    if (!extent || extent->size == 0 || extent->size > size_max) continue;
    const bool is_held = table_.knows(whole_plan(*extent, check_data_).key());
    if (is_held && !is_warming_) continue;  // held for other readers
    const bool is_to_push = this->is_to_push(record);
    Hint hint{.record = record};
    if (is_to_push && has_files_) hint.ino = tree_.file_of(record);
    found.push_back({hint, *extent, is_to_push, is_first, copies});
  }
  return found;
}

// Returns the pieces that are worth reading.
std::vector<RegionPass::Piece> RegionPass::cut(std::span<const Neighbour> neighbours) {
  std::vector<Piece> pieces;
  while (!neighbours.empty()) {
    const Piece piece = first_piece(neighbours);
    neighbours = neighbours.subspan(piece.neighbours.size());
    const bool is_near = piece.file->is_near(piece.begin, piece.size);
    if (!is_near) outcome_.is_cut = true;
    if (is_near && (piece.to_push > 0 || !piece.is_cached)) pieces.push_back(piece);
  }
  return pieces;
}

RegionPass::Piece RegionPass::first_piece(std::span<const Neighbour> neighbours) const {
  const Extent& first = neighbours.front().extent;
  size_t count = 1;
  while (count < neighbours.size()) {
    const Extent& last = neighbours[count - 1].extent;
    const Extent& next = neighbours[count].extent;
    const bool is_beside = next.shard == first.shard && next.offset >= end_of(last) &&
                           next.offset - end_of(last) <= kGapMax &&
                           end_of(next) - first.offset <= kPieceBytes;
    if (!is_beside) break;
    ++count;
  }
  Piece piece{.neighbours = neighbours.first(count),
              .file = &fetcher_.shards().file_of(first),
              .begin = first.offset,
              .size = static_cast<size_t>(end_of(neighbours[count - 1].extent) - first.offset)};
  piece.to_push =
      static_cast<size_t>(std::ranges::count_if(piece.neighbours, &Neighbour::is_to_push));
  piece.is_cached = piece.file->is_cached(piece.begin, piece.size);
  return piece;
}

void RegionPass::read_piece(const Piece& piece) {
  Budget& budget = fetcher_.budget();
  const size_t size = BufferPool::capacity_for(piece.size);
  std::unique_lock<std::mutex> turn;
  auto memory = is_warming_ ? budget.try_reserve(Account::kInFlight, size, kWarmingPart)
                            : budget.try_reserve(Account::kAhead, size);
  if (!memory) {
    if (!is_warming_) {
      outcome_.is_cut = true;
      return;
    }
    // warm() leaves out no piece: it reads one at a time, however short memory is.
    turn = around_.take_turn();
    memory = budget.reserve(Account::kInFlight, size);
  }
  Buffer buffer = fetcher_.buffers().acquire(piece.size);
  const auto bytes = buffer.first(piece.size);
  piece.file->read_fully(piece.begin, bytes);
  auto& counters = fetcher_.counters();
  auto& read = piece.is_cached ? counters.bytes_page_cache : counters.bytes_storage;
  read.fetch_add(piece.size, std::memory_order_relaxed);
  outcome_.read_bytes += piece.size;
  uint64_t pushed = 0;  // records
  for (const Neighbour& one : piece.neighbours) {
    if (!one.is_to_push) continue;
    const auto offset = static_cast<size_t>(one.extent.offset - piece.begin);
    const size_t whole = static_cast<size_t>(one.extent.size) + one.extent.trailer_size();
    const size_t count = push_one(one, bytes.subspan(offset, whole));
    pushed += count > 0 ? 1 : 0;
    outcome_.pushed += count;
  }
  if (piece.is_cached) return;
  if (pushed == piece.neighbours.size()) return piece.file->drop_cached(piece.begin, piece.size);
  outcome_.unknown += piece.neighbours.size() - piece.to_push;
}

// Returns the number of files that were pushed. `bytes` include the trailer.
size_t RegionPass::push_one(const Neighbour& neighbour, std::span<const std::byte> bytes) {
  if (!is_to_push(neighbour.hint.record)) return 0;  // a READ has come meanwhile
  const Extent& extent = neighbour.extent;
  const auto content = bytes.first(static_cast<size_t>(extent.size));
  try {
    if (check_data_) {
      check_record(fetcher_.shards(), extent, record_crc(extent, content),
                   bytes.subspan(content.size()), fetcher_.counters());
    }
  } catch (const ChecksumError&) {
    return 0;
  }
  size_t count = neighbour.is_first && push_(neighbour.hint, content) ? 1 : 0;
  for (const auto& [record, ino] : neighbour.copies) {
    count += push_({.record = record, .ino = ino}, content) ? 1 : 0;
  }
  if (count == 0) {
    around_.note_unknown(neighbour.hint.record);
  } else {
    around_.note_pushed(neighbour.hint.record);
  }
  return count;
}

}  // namespace ffrfs
