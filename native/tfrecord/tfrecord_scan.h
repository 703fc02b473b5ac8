// A TFRecord file from front to end: its records, verified, some at a time, into memory
// that the caller makes.
//
//   small records    [ one window: read, verified ]           next() hands them out
//   others           [header]..hop..[header]..hop..           next() tells their sizes,
//                    [data][checksum] [data][checksum]        read() fills: two threads
//
// Once something is not in the page cache, the scan tells the kernel what comes next, so that it
// reads the rest of the file ahead of us, in order.
// Blocks. One thread at a time; goes on working in the child of a fork().
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
    const std::byte* bytes = nullptr;  // null: read() brings them
  };

  // `check_data`: hold lengths and data against their checksums.
  TfrecordScan(std::shared_ptr<const Source> file, bool check_data);
  ~TfrecordScan();

  // The records that come next, all of them with bytes or all without; valid until the
  // next call. Empty at the end of the file. Throws for the first record alone, those
  // behind it are the next call's: ChecksumError if its data do not match, and then
  // stands behind it; TruncatedError and FormatError where nobody knows what comes next,
  // each time from then on; StorageError.
  [[nodiscard]] std::span<const Record> next();

  // Brings the bytes of those records into `targets`, and steps behind them. Returns how
  // many are good, from the first one on; at least one, or throws as next() does.
  [[nodiscard]] size_t read(std::span<const std::span<std::byte>> targets);

 private:
  // Records of which the headers have been read.
  struct Group {
    uint64_t begin = 0;
    std::vector<Record> records;
    bool ends_small = false;
  };
  struct Pass;
  class Helper;

  void advise();
  void take_window();
  void fill_window();
  [[nodiscard]] std::span<const std::byte> frame_in_window();
  void take_hops();
  [[nodiscard]] Group hop(FramePlace place) const;
  void run(Pass& pass);
  void step(uint64_t frame) { place_ = {place_.record + 1, place_.offset + frame}; }

  const std::shared_ptr<const Source> owner_;
  const Source& file_;
  const bool check_data_;
  FramePlace place_;      // of the next record
  bool is_cold_ = false;  // something was not in the page cache, so the rest is not, probably
  uint64_t advised_ = 0;  // up to where the kernel has been told
  bool is_small_ = true;  // the last record was, and so is the next, probably
  Buffer window_;
  std::span<const std::byte> left_;  // of the window, from place_ on
  std::vector<Record> records_;
  Group ahead_;  // what follows them, if it is known
  std::chrono::steady_clock::time_point run_end_;  // of the last pass
  std::chrono::steady_clock::duration run_time_{0};
  ProcessLocal<Helper> helper_;
};

}  // namespace ffrfs
