// The read path of a mounted file: (extent, offset, size) → verified bytes, at once
// or later.
//
//   read() ── small record ──────────────► one block ──┐
//      └───── large ─ fingerprints known? ─ its chunks ─┴─► all found: Slice, at once
//                         │ no                            │ else: fetch what is missing
//                         └─ verify the whole record first ┴─► poll() calls `done`
//
// Any thread. Callbacks run in poll(), on the thread that calls it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "record/extent.h"
#include "record/shard_set.h"
#include "volume/block.h"
#include "volume/block_reader.h"
#include "volume/counters.h"
#include "volume/large_records.h"

namespace ffrfs {

class FileReads {
 public:
  // A slice, or why there is none.
  using Done = std::function<void(Slice, std::exception_ptr)>;

  FileReads(const ShardSet& shards, Counters& counters, size_t limit_bytes, bool check_data);

  // Bytes [offset, offset + size) of `extent`, which must hold them. nullopt: they
  // come through `done`, later. Never waits for the disk. Throws ChecksumError.
  [[nodiscard]] std::optional<Slice> read(const Extent& extent, uint64_t offset, size_t size,
                                          Done done);

  void poll() { blocks_.poll(); }
  void wait(int timeout_ms) const { blocks_.wait(timeout_ms); }
  void wake() { blocks_.queue().post([] {}); }
  [[nodiscard]] int event_fd() { return blocks_.queue().event_fd(); }

 private:
  struct Request;

  [[nodiscard]] std::vector<BlockPlan> plan(const Extent& extent, uint64_t offset, size_t size,
                                            const Fingerprints* prints) const;
  void find_blocks(Request& request);
  void fetch_blocks(const std::shared_ptr<Request>& request);
  void go_on(const std::shared_ptr<Request>& request, const Fingerprints* prints);
  [[nodiscard]] Slice assemble(const Request& request);

  const bool check_data_;
  Counters& counters_;
  BlockReader blocks_;
  LargeRecords large_;  // last: its threads post into the queue of blocks_
};

}  // namespace ffrfs
