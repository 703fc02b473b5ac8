// Records too large to hold: verified once as a whole, in bounded memory, and
// fingerprinted on the way, so that every later read of a part is verified too.
//
// A fingerprint is the CRC-32C of one kChunkSize chunk; they cost 4 bytes per MiB and
// stay for as long as the volume lives. A record that fails its check gets none: the
// next reader makes another attempt.
//
// Any thread. The passes run on threads of their own (a record of gigabytes takes
// seconds), so that they never hold up the reads of others.

#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "io/read_queue.h"
#include "io/thread_pool.h"
#include "record/extent.h"
#include "record/shard_set.h"
#include "volume/counters.h"

namespace ffrfs {

using Fingerprints = std::vector<uint32_t>;  // by chunk

class LargeRecords {
 public:
  using Done = std::function<void(std::shared_ptr<const Fingerprints>, std::exception_ptr)>;

  // `queue` delivers the results: callbacks run in its poll(). It outlives this.
  LargeRecords(const ShardSet& shards, Counters& counters, ReadQueue& queue);

  // nullptr: not verified yet.
  [[nodiscard]] std::shared_ptr<const Fingerprints> find(const Extent& extent);

  // Verifies the record; one pass however many ask meanwhile.
  void verify(const Extent& extent, Done done);

 private:
  using Key = std::pair<uint32_t, uint64_t>;  // shard, record
  struct Pass {
    std::vector<Done> waiting;
  };

  void run_pass(const Extent& extent);

  const ShardSet& shards_;
  Counters& counters_;
  ReadQueue& queue_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Fingerprints>> verified_;
  std::map<Key, Pass> passes_;
  ThreadPool threads_;  // last: joined before the rest goes
};

}  // namespace ffrfs
