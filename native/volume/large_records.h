// Records too large to hold. A part of one is verified by its fingerprints, the CRC-32C of
// each kChunkSize chunk. They stand in the pack's index, if it has one; else the record is
// verified once as a whole, in bounded memory, and fingerprinted on the way.
//
// Fingerprints cost 4 bytes per MiB and stay for as long as the volume lives. A record that
// fails its check gets none: the next reader makes another attempt.
//
// Any thread. The passes run on threads of their own (a record of gigabytes takes
// seconds), so that they never hold up the reads of others.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "io/read_queue.h"
#include "io/thread_pool.h"
#include "shard/extent.h"
#include "shard/shard_set.h"
#include "volume/counters.h"

namespace ffrfs {

using Fingerprints = std::vector<uint32_t>;  // by chunk

class LargeRecords {
 public:
  using Done = std::function<void(std::shared_ptr<const Fingerprints>, std::exception_ptr)>;

  // `queue` delivers the results: callbacks run in its poll(). It outlives this. With a
  // smaller `limit_bytes`, which is the mount's, fewer records are passed over at a time.
  LargeRecords(const ShardSet& shards, Counters& counters, ReadQueue& queue, size_t limit_bytes);

  // nullptr: the index has none, and it is not verified yet.
  [[nodiscard]] std::shared_ptr<const Fingerprints> find(const Extent& extent);

  // Verifies the record; one pass however many ask meanwhile.
  void verify(const Extent& extent, Done done);

  // Reads the record into `target`, which has its size and outlives this, verifies it
  // (unless not `check`), then calls `use` on the pass's thread; what that throws is the
  // error. A pass of its own for each call.
  void read(const Extent& extent, std::span<std::byte> target, bool check,
            std::function<void()> use, std::function<void(std::exception_ptr)> done);

 private:
  using Key = std::pair<uint32_t, uint64_t>;  // shard, record
  struct Pass {
    std::vector<Done> waiting;
  };

  void run_pass(const Extent& extent);
  void fill(const Extent& extent, std::span<std::byte> target, bool check);

  const ShardSet& shards_;
  Counters& counters_;
  ReadQueue& queue_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Fingerprints>> verified_;
  std::map<Key, Pass> passes_;
  ThreadPool threads_;  // last: joined before the rest goes
};

}  // namespace ffrfs
