// One batch's reads from storage: the records that the page cache did not hold, as
// segments sorted by offset.
//
//   records     [ 3 ][ 4 ]      [ 9 .............. ]       sorted by offset
//   segments    [  one   ]      [ one ][ one ][ one]       near ones merged, large ones cut
//
// A segment that is one item, which has no target, becomes its target: nothing is copied.
//
// Owned by one call of BatchReader::read; its queue serves nobody else meanwhile.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "io/read_queue.h"
#include "shard/shard_set.h"
#include "volume/counters.h"

namespace ffrfs {

struct BatchItem;

class StoragePass {
 public:
  // `buffers`: for items without a target.
  StoragePass(const ShardSet& shards, Counters& counters, ReadQueue& queue, BufferPool& buffers,
              std::span<BatchItem> items, bool check, const std::function<void(size_t)>& done);

  // Reads items[i] for every i of `missing`; done(i) when it is finished.
  void run(std::vector<size_t> missing);

 private:
  struct Part {  // of a segment: bytes of one item
    size_t item;
    uint64_t item_offset;
    uint64_t offset;  // in the file
    size_t size;
  };
  struct Segment {
    uint32_t shard;
    uint64_t offset;
    uint64_t end;
    size_t first_part;
    size_t part_count;
  };

  void plan(std::vector<size_t> missing);
  void add_part(const Part& part, uint32_t shard);
  void make_targets();
  [[nodiscard]] bool is_one_item(const Segment& segment) const;
  void adopt(const Segment& segment, RawBytes& raw);
  void finish_segment(size_t index, RawBytes raw);
  void try_parts(const Segment& segment);
  void finish_item(size_t item);

  const ShardSet& shards_;
  Counters& counters_;
  ReadQueue& queue_;
  BufferPool& buffers_;
  const std::span<BatchItem> items_;
  const bool check_;
  const std::function<void(size_t)>& done_;
  std::vector<Part> parts_;
  std::vector<Segment> segments_;
  std::vector<uint32_t> parts_left_;  // by item
  size_t in_flight_ = 0;
  uint64_t in_flight_bytes_ = 0;
};

}  // namespace ffrfs
