// The read path of a mounted file: (extent, offset, size) → verified bytes, at once
// or later.
//
//   read() ── small record ──────────────► one unit ───┐
//      └───── large ─ fingerprints known? ─ its chunks ─┴─► all found: Slice, at once
//                         │ no                            │ else: fetch what is missing
//                         └─ verify the whole record first ┴─► poll() calls `done`
//
// and of what is made of a whole record's bytes, use_record(): the unit of a small one
// stays in memory, so that the read that follows finds it there.
//
// Any thread. Callbacks run in poll(), on the thread that calls it.

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

#include "fetch/demand_reader.h"
#include "fetch/fetcher.h"
#include "fetch/chunk_fingerprints.h"
#include "fetch/unit.h"
#include "shard/extent.h"
#include "shard/shard_set.h"
#include "stats/counters.h"

namespace ffrfs {

class FileReads {
 public:
  // A slice, or why there is none.
  using Done = std::function<void(Slice, std::exception_ptr)>;

  // `limit_bytes`: what is held in memory at a time; see limit_cache().
  FileReads(const ShardSet& shards, Counters& counters, size_t limit_bytes, bool check_data);

  struct AtOnce {
    std::optional<size_t> size;      // of the file, which was read
    std::optional<Extent> missing{};  // a small file that has to be read from storage: read_missing()
  };
  // All of `extent`, if it is in the page cache and fits into `target`. Neither: read() says more.
  // Allocates nothing. Throws ChecksumError.
  [[nodiscard]] AtOnce read_now(const Extent& extent, std::span<std::byte> target);
  // All of what read_now() has not found.
  void read_missing(const Extent& extent, Done done);

  // Bytes [offset, offset + size) of `extent`, which must hold them. nullopt: they
  // come through `done`, later. Never waits for the disk. Throws ChecksumError.
  enum class Shape { kOnePiece, kParts };  // or as they lie in units (Slice::rest)
  [[nodiscard]] std::optional<Slice> read(const Extent& extent, uint64_t offset, size_t size,
                                          Done done, Shape shape = Shape::kOnePiece);

  // As read(), of bytes that are not answered to anybody as they are.
  [[nodiscard]] std::optional<Slice> load(const Extent& extent, uint64_t offset, size_t size,
                                          Done done);

  // Gives `use` all bytes of a record. True: it has had them. False: it gets them later,
  // in poll() or, if the record is larger than kWholeRecordSize, on a thread of its own;
  // then poll() calls `done`, with what went wrong or what `use` has thrown. Never waits
  // for the disk. Throws ChecksumError, and what `use` throws. The record must not be
  // larger than record_limit_bytes().
  using Use = ChunkFingerprints::Use;
  [[nodiscard]] bool use_record(const Extent& extent, Use use,
                                std::function<void(std::exception_ptr)> done);
  // Does not change with limit_cache().
  [[nodiscard]] uint64_t record_limit_bytes() const;

  // As Volume::limit_cache(), but for what was read ahead. Any thread.
  void limit_cache(size_t limit_bytes) { units_.limit_cache(limit_bytes); }

  [[nodiscard]] Fetcher& fetcher() { return fetcher_; }
  [[nodiscard]] DemandReader& units() { return units_; }

  // Runs `callback` in a poll() to come.
  void post(std::function<void()> callback) { units_.port().post(std::move(callback)); }

  void poll() { units_.poll(); }
  void wait(int timeout_ms) const { units_.wait(timeout_ms); }
  void wake() { post([] {}); }
  [[nodiscard]] int event_fd() { return units_.port().event_fd(); }

 private:
  struct Request;

  [[nodiscard]] std::optional<Slice> start(const std::shared_ptr<Request>& request, Done done);
  [[nodiscard]] std::vector<UnitPlan> plan(const Extent& extent, uint64_t offset, size_t size,
                                            const Fingerprints* prints) const;
  [[nodiscard]] bool find_whole(Request& request);
  void find_units(Request& request);
  void fetch_units(const std::shared_ptr<Request>& request);
  void go_on(const std::shared_ptr<Request>& request, const Fingerprints* prints);
  [[nodiscard]] Slice assemble(const Request& request);

  const bool check_data_;
  Counters& counters_;
  Fetcher fetcher_;
  DemandReader units_;
  ChunkFingerprints large_;  // last: its threads post into the port of units_
};

}  // namespace ffrfs
