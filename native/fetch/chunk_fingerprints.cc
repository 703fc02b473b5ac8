#include "fetch/chunk_fingerprints.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "fetch/record_stream.h"
#include "io/crc.h"

namespace ffrfs {
namespace {

// Several, because one thread may wait for a slow disk; few, because each keeps a core busy while
// the record is cached.
constexpr size_t kPassLimit = 4;

// A piece of the stream is exactly one chunk, so that each fingerprint is one call of crc32c().
static_assert(RecordStream::kPieceSize == kChunkSize);

UnitKey key_of(const Extent& extent) {
  return {extent.shard, extent.record, UnitKind::kFingerprints};
}

// Returns the fingerprints in the pack's index; empty if there are none that can be used. Then the
// record is verified by its own checksum.
std::vector<uint32_t> written_fingerprints(const Shard& shard, const Extent& extent) {
  try {
    auto chunks = shard.chunk_checksums(extent.record);
    if (chunks.size() == (extent.size + kChunkSize - 1) / kChunkSize) return chunks;
  } catch (const std::runtime_error&) {  // this part of the index is damaged
  }
  return {};
}

uint64_t whole_size(const Extent& extent) { return extent.size + extent.trailer_size(); }

// std::function needs a copyable callable.
std::shared_ptr<Reservation> shared(Reservation memory) {
  return std::make_shared<Reservation>(std::move(memory));
}

}  // namespace

ChunkFingerprints::ChunkFingerprints(DemandReader& reader)
    : reader_(reader), fetcher_(reader.fetcher()), threads_(kPassLimit) {}

FingerprintsPtr ChunkFingerprints::find(const Extent& extent) {
  if (const HeldPtr held = reader_.table().find(key_of(extent)).held) {
    return std::static_pointer_cast<const Fingerprints>(held);
  }
  auto written = written_fingerprints(fetcher_.shards().shard(extent.shard), extent);
  if (written.empty()) return nullptr;
  return keep(extent, std::move(written));
}

FingerprintsPtr ChunkFingerprints::keep(const Extent& extent, std::vector<uint32_t> chunks) {
  auto prints = std::make_shared<Fingerprints>(
      fetcher_.budget().reserve(Account::kMetadata, chunks.size() * sizeof(uint32_t)));
  prints->chunks = std::move(chunks);
  reader_.table().keep(key_of(extent), prints);
  return prints;
}

// Runs `pass` on a thread when there is room for its memory. If no thread can run it, `failed` is
// called with the error.
void ChunkFingerprints::start_in_turn(size_t memory, Pass pass, Failed failed) {
  fetcher_.budget().admit(
      memory, [this, pass = std::move(pass), failed = std::move(failed)](Reservation admitted) {
    try {
      threads_.submit([pass, memory = shared(std::move(admitted))] { pass(std::move(*memory)); });
    } catch (...) {
      reader_.port().post_answer(failed, std::current_exception());
    }
  });
}

void ChunkFingerprints::verify(const Extent& extent, Done done) {
  const UnitKey key = key_of(extent);
  if (!reader_.wait_for<const Fingerprints>(key, std::move(done))) return;
  const auto fail = [this, key](const std::exception_ptr& error) {
    for (const auto& waiting : reader_.table().finish(key)) waiting(nullptr, error);
  };
  try {
    start_in_turn(RecordStream::memory_for(fetcher_), [this, extent](Reservation memory) {
      fingerprint(extent, std::move(memory));
    }, fail);
  } catch (const std::bad_alloc&) {  // else later readers would wait for this pass, too
    fail(std::current_exception());
  }
}

void ChunkFingerprints::fingerprint(const Extent& extent, Reservation memory) {
  std::shared_ptr<Fingerprints> prints;
  std::exception_ptr error;
  try {
    prints = std::make_shared<Fingerprints>();
    prints->chunks.reserve(static_cast<size_t>(extent.size / kChunkSize + 1));
    with_second_try(fetcher_.shards().file_of(extent), extent.offset, whole_size(extent), [&] {
      prints->chunks.clear();
      RecordStream stream(fetcher_, extent, std::move(memory));
      for (auto piece = stream.next(); !piece.empty(); piece = stream.next()) {
        prints->chunks.push_back(crc32c(piece));
      }
    });
    prints->memory =
        fetcher_.budget().reserve(Account::kMetadata, prints->chunks.size() * sizeof(uint32_t));
  } catch (...) {
    error = std::current_exception();
    prints = nullptr;
  }
  for (const auto& done : reader_.table().finish(key_of(extent), prints)) {
    reader_.port().post_answer(done, prints, error);
  }
}

void ChunkFingerprints::read(const Extent& extent, bool check, Use use,
                             std::function<void(std::exception_ptr)> done) {
  const auto size = static_cast<size_t>(extent.size);
  start_in_turn(BufferPool::capacity_for(size),
                [this, extent, size, check, use = std::move(use), done](Reservation memory) {
    std::exception_ptr error;
    try {
      Unit unit(std::move(memory));
      unit.buffer = fetcher_.buffers().acquire(size);
      unit.bytes = unit.buffer.first(size);
      with_second_try(fetcher_.shards().file_of(extent), extent.offset, whole_size(extent),
                      [&] { fill(extent, unit, check); });
      use(unit.bytes);
    } catch (...) {
      error = std::current_exception();
    }
    reader_.port().post_answer(done, error);
  }, done);
}

void ChunkFingerprints::fill(const Extent& extent, const Unit& unit, bool check) {
  std::vector<uint32_t> prints;
  RecordStream stream(fetcher_, extent);
  for (auto rest = unit.buffer.first(unit.bytes.size()); !rest.empty();) {
    const auto piece = stream.next();
    std::memcpy(rest.data(), piece.data(), piece.size());
    if (check) prints.push_back(crc32c(piece));
    rest = rest.subspan(piece.size());
  }
  if (!check) return;
  [[maybe_unused]] const auto end = stream.next();  // throws if the checksum does not match
  (void)keep(extent, std::move(prints));
}

}  // namespace ffrfs
