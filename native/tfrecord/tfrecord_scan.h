// Scans a TFRecord file from front to end: returns its records, verified, some at a time, in memory
// of the caller.
//
//   small records    [ one window: read, verified ]           next() returns their bytes
//   others           [header]..hop..[header]..hop..           next() returns their sizes,
//                    [data][checksum] [data][checksum]        read() fills: two threads
//
// Once something is not in the page cache, the scan advises the kernel to read the rest of the file
// ahead, in order. Blocks. One thread at a time; continues to work in the child of a fork().
// Not here: random access (Fetcher over a TfrecordShard), compressed files.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "io/buffer.h"
#include "io/process_local.h"
#include "io/source.h"
#include "tfrecord/framing.h"

namespace ffrfs {

class TfrecordScan {
 public:
  struct Record {
    uint64_t size = 0;
    const std::byte* bytes = nullptr;  // null: read() fetches them
  };

  // `check_data`: verify the checksums of lengths and data.
  TfrecordScan(std::shared_ptr<const Source> file, bool check_data);
  ~TfrecordScan();

  // Returns the next records, all of them with bytes or all without; valid until the next call.
  // Empty at the end of the file. Throws only for the first of them, later ones are left to the
  // next call: ChecksumError if its data do not match, after which the scan continues behind it;
  // TruncatedError and FormatError if the next record cannot be found, from then on each time;
  // StorageError.
  [[nodiscard]] std::span<const Record> next();

  // Reads the bytes of those records into `targets`, and moves on. Returns how many of them are
  // good, counted from the first; at least one, or throws as next() does.
  [[nodiscard]] size_t read(std::span<const std::span<std::byte>> targets);

 private:
  // Records whose headers have been read.
  struct Group {
    uint64_t begin = 0;
    std::vector<Record> records;
    bool ends_small = false;
  };
  struct Pass;
  class Helper;

  void advise();
  void take_window();
  // Throws ChecksumError. Reads the frame at place_ into the window again if that may help.
  void check_in_window(std::span<const std::byte> frame) const;
  void fill_window();
  [[nodiscard]] std::span<const std::byte> frame_in_window();
  void take_hops();
  [[nodiscard]] Group hop(FramePlace place) const;
  void run(Pass& pass);
  void step(uint64_t frame) { place_ = {place_.record + 1, place_.offset + frame}; }

  const std::shared_ptr<const Source> owner_;
  const Source& file_;
  const bool check_data_;
  FramePlace place_;  // of the next record
  bool is_cold_ = false;  // something was not cached, so the rest is probably not
  uint64_t advised_ = 0;  // the end of the kernel's readahead
  bool is_small_ = true;  // the last record was small, so the next probably is
  Buffer window_;
  std::span<const std::byte> left_;  // rest of the window, from place_ on
  std::vector<Record> records_;
  Group ahead_;  // the records after these, if they are known
  std::chrono::steady_clock::time_point run_end_;  // of the last pass
  std::chrono::steady_clock::duration run_time_{0};
  ProcessLocal<Helper> helper_;
};

}  // namespace ffrfs
