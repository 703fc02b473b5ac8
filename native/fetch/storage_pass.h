// Reads the records of one batch that the page cache did not hold. StoragePass reads past the page
// cache, BufferedPass through it.
//
// StoragePass reads segments, sorted by offset:
//
//   records     [ 3 ][ 4 ]      [ 9 .............. ]       sorted by offset
//   segments    [  one   ]      [ one ][ one ][ one]       near ones merged, large ones cut
//
// If a segment is exactly one item without a target, its buffer becomes the target: no copy.
//
// Owned by one call of Fetcher::read or load; its port serves no other caller meanwhile. Segments
// that are copied from are reserved as in flight; a batch ahead of need takes at most half of that
// account, so that demand reads have room.
//
// BufferedPass asks the kernel to read the items ahead, in the order of the file, and copies and
// checks each item when its bytes have come.
//
//   items, sorted    [ done ][ done ][ copied ][ on its way ............ ][ not asked for yet ]
//                                               at most kBytesAhead
//
// So many reads wait for the disk at once, without a thread or a buffer for each, and the next
// reader finds the bytes in memory. Only for sources that read ahead (io/source.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "fetch/batch.h"
#include "fetch/fetcher.h"
#include "io/read_queue.h"

namespace ffrfs {

class StoragePass {
 public:
  StoragePass(Fetcher& fetcher, ReadPort& port, std::span<BatchItem> items, bool check,
              const ItemDone& done, ReadPort::Urgency urgency);

  // Reads items[i] for every i of `missing`, and calls done(i) when each is finished.
  void run(std::vector<size_t> missing);

 private:
  struct Part {  // bytes of one item in a segment
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
    ReadPort::Bytes bytes = ReadPort::Bytes::kAnyhow;
    Reservation memory{};  // while the read is in flight
  };

  void plan(std::vector<size_t> missing);
  template <typename Add> void cut(size_t item, const Add& add);
  void add_part(const Part& part, uint32_t shard);
  void make_targets();
  [[nodiscard]] bool reserve(Segment& segment);
  void submit(size_t index);
  [[nodiscard]] bool is_one_item(const Segment& segment) const;
  void adopt(const Segment& segment, RawBytes& raw);
  void finish_segment(size_t index, RawBytes raw);
  void read_anew();
  void try_parts(size_t first_part, size_t part_count, uint32_t shard);
  void finish_item(size_t item);

  Fetcher& fetcher_;
  ReadPort& port_;
  const std::span<BatchItem> items_;
  const bool check_;
  const ItemDone& done_;
  const double part_of_budget_;
  std::vector<Part> parts_;
  std::vector<Segment> segments_;
  std::vector<uint32_t> parts_left_;  // by item
  std::vector<size_t> anew_;  // items to be fetched again, because their checksum is wrong
  std::vector<char> is_second_;  // by item: was fetched again; empty if none was
  size_t in_flight_ = 0;
  uint64_t in_flight_bytes_ = 0;
};

// Owned by one call of Fetcher::read; read_item() may run on any thread.
class BufferedPass {
 public:
  // Prepares to read items[i] for every i of `missing`. Each of them has a target.
  BufferedPass(Fetcher& fetcher, std::span<BatchItem> items, bool check,
               std::vector<size_t> missing);

  [[nodiscard]] size_t count() const { return order_.size(); }
  // Reads the item at `place` in the order of the file. Throws Interrupted.
  void read_item(size_t place);

 private:
  void ask(size_t place);

  Fetcher& fetcher_;
  const std::span<BatchItem> items_;
  const bool check_;
  std::vector<size_t> order_;
  std::mutex mutex_;  // guards all below
  size_t asked_ = 0;  // the kernel was asked for the places before this one
  uint64_t bytes_ahead_ = 0;
};

}  // namespace ffrfs
