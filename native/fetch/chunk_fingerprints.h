// Reads records that are too large to hold. A part of one is verified by the record's fingerprints,
// the CRC-32C of each kChunkSize chunk. They come from the pack's index, if it has them; else the
// record is read and verified once as a whole, in bounded memory, and fingerprinted on the way.
//
// Fingerprints cost 4 bytes per MiB, and stay in the table while there is room. A record that fails
// its check gets none, so the next reader tries again.
//
// Thread-safe. The passes have a thread pool of their own (a record of gigabytes takes seconds), so
// that they never delay other reads.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fetch/demand_reader.h"
#include "fetch/unit.h"
#include "io/thread_pool.h"
#include "shard/extent.h"

namespace ffrfs {

struct Fingerprints : Held {
  using Held::Held;
  std::vector<uint32_t> chunks;
};
using FingerprintsPtr = std::shared_ptr<const Fingerprints>;

class ChunkFingerprints {
 public:
  using Done = std::function<void(const FingerprintsPtr&, const std::exception_ptr&)>;

  // Callbacks run in the poll() of `reader`, which must outlive this object.
  explicit ChunkFingerprints(DemandReader& reader);

  // Returns nullptr if the index has none and the record has not been verified yet.
  [[nodiscard]] FingerprintsPtr find(const Extent& extent);

  // Verifies the record; concurrent calls share one pass.
  void verify(const Extent& extent, Done done);

  // Reads the record into a unit of its own, verifies it (if `check`), and calls `use` on the
  // pass's thread; an exception from `use` becomes the error. Each call is a pass.
  using Use = std::function<void(std::span<const std::byte>)>;
  void read(const Extent& extent, bool check, Use use,
            std::function<void(std::exception_ptr)> done);

 private:
  using Pass = std::function<void(Reservation)>;
  using Failed = std::function<void(const std::exception_ptr&)>;

  void start_in_turn(size_t memory, Pass pass, Failed failed);
  void fingerprint(const Extent& extent, Reservation memory);
  void fill(const Extent& extent, const Unit& unit, bool check);
  [[nodiscard]] FingerprintsPtr keep(const Extent& extent, std::vector<uint32_t> chunks);

  DemandReader& reader_;
  Fetcher& fetcher_;
  ThreadPool threads_;  // last, so that threads are joined before the members above are destroyed
};

}  // namespace ffrfs
