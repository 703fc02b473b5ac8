// The read path of a mounted file: (extent, offset, size) → verified bytes, at once or later.
//
//   read() ── small record ──────────────► one unit ───┐
//      └───── large ─ fingerprints known? ─ its chunks ─┴─► all found: Slice, at once
//                         │ no                            │ else: fetch the missing units
//                         └─ verify the whole record first ┴─► poll() calls `done`
//
// use_record() serves objects that are made from a whole record: the unit of a small record stays
// in memory, so that the read that follows finds it there.
//
// Thread-safe. Callbacks run in poll(), on the thread that calls it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fetch/chunk_fingerprints.h"
#include "fetch/demand_reader.h"
#include "fetch/fetcher.h"
#include "fetch/unit.h"
#include "shard/extent.h"
#include "shard/shard_set.h"
#include "stats/counters.h"
#include "volume/event_turns.h"

namespace ffrfs {

class FileReads {
 public:
  // Called with a slice, or with the error.
  using Done = std::function<void(Slice, std::exception_ptr)>;

  // `limit_bytes`: how much memory the read path holds; see limit_cache().
  FileReads(const ShardSet& shards, Counters& counters, size_t limit_bytes, bool check_data);

  struct AtOnce {
    std::optional<size_t> size;      // of the file, which was read
    std::optional<Extent> missing{};  // a small file that needs storage: read_missing()
  };
  // Reads all of `extent`, if it is in the page cache and fits into `target`. If both fields are
  // empty, the caller has to call read(). Allocates nothing. Throws ChecksumError.
  [[nodiscard]] AtOnce read_now(const Extent& extent, std::span<std::byte> target);
  // Reads all of an extent that read_now() has returned as missing.
  void read_missing(const Extent& extent, Done done);

  // Reads bytes [offset, offset + size) of `extent`, which must hold them. Returns nullopt if they
  // will come through `done`. Never waits for the disk. Throws ChecksumError.
  enum class Shape { kOnePiece, kParts };  // kParts: not copied together (Slice::rest)
  [[nodiscard]] std::optional<Slice> read(const Extent& extent, uint64_t offset, size_t size,
                                          Done done, Shape shape = Shape::kOnePiece);

  // The same for bytes that are not returned to a reader as they are.
  [[nodiscard]] std::optional<Slice> load(const Extent& extent, uint64_t offset, size_t size,
                                          Done done);

  // Calls `use` with all bytes of a record. Returns true if it has. Otherwise `use` is called
  // later, in poll() or, if the record is larger than kWholeRecordSize, on another thread; then
  // poll() calls `done`, with the error of the read or of `use`. Never waits for the disk. Throws
  // ChecksumError, and what `use` throws. The record must not be larger than record_limit_bytes().
  using Use = ChunkFingerprints::Use;
  [[nodiscard]] bool use_record(const Extent& extent, Use use,
                                std::function<void(std::exception_ptr)> done);
  // Returns a limit that does not change with limit_cache().
  [[nodiscard]] uint64_t record_limit_bytes() const;

  // The same as Volume::limit_cache(), except for units read ahead. Thread-safe.
  void limit_cache(size_t limit_bytes) { units_.limit_cache(limit_bytes); }

  [[nodiscard]] Fetcher& fetcher() { return fetcher_; }
  [[nodiscard]] DemandReader& units() { return units_; }

  // Returns how many callbacks it has run.
  size_t poll() { return units_.poll(); }
  void wait(int timeout_ms) const { units_.wait(timeout_ms); }
  // Calls wait() and poll() in turns with other threads; see EventTurns::wait().
  void take_turn(const std::function<bool()>& is_ready, int timeout_ms) {
    turns_.wait(is_ready, timeout_ms);
  }
  void wake() {
    units_.port().post([] {});
  }
  [[nodiscard]] int event_fd() { return units_.port().event_fd(); }

 private:
  struct Request;

  [[nodiscard]] std::optional<Slice> start(const std::shared_ptr<Request>& request, Done done);
  [[nodiscard]] std::vector<UnitPlan> plan(const Extent& extent, uint64_t offset, size_t size,
                                           const Fingerprints* prints) const;
  [[nodiscard]] bool find_whole(Request& request);
  void find_units(Request& request);
  void fetch_units(const std::shared_ptr<Request>& request);
  void finish(Request& request);
  void go_on(const std::shared_ptr<Request>& request, const Fingerprints* prints);
  [[nodiscard]] Slice assemble(const Request& request);

  const bool check_data_;
  Counters& counters_;
  Fetcher fetcher_;
  DemandReader units_;
  EventTurns turns_{{.wait = [this](int timeout_ms) { wait(timeout_ms); }, .poll = [this] {
    return poll();
  }, .wake = [this] { units_.port().signal(); }}};
  ChunkFingerprints large_;  // last, because its threads post to the port of units_
};

}  // namespace ffrfs
