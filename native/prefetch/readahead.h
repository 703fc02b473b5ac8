// Runs of reads in order, without a hint: recognised, and continued ahead of the reader.
//
//   reads     7 8 9 | 10 11 12 13 ...        a run, and how far ahead it is read:
//             └─ three in a row ─┘             start ....... last ....... ahead
//                                              └ read ahead or read ┘└ window ┘
//
// Two orders are looked for: that of the records, and that of the listings (inode numbers
// are given in it). A run is known by its place, not by its reader: several readers may
// each have one, or share one. The window grows while what was read ahead is asked for, and
// shrinks when it is not. Where a run comes upon what another reads ahead, it goes on behind.
//
// Plain data: its owner guards it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tree/tree.h"

namespace ffrfs {

// The record's file; 0: none, or nobody knows, as the index is damaged there or far away.
[[nodiscard]] Ino find_file(const Tree& tree, uint64_t record);

class Readahead {
 public:
  struct Next {
    uint64_t record = 0;
    Ino ino = 0;       // 0: the record has a folder of its own
    uint64_t run = 0;
    bool is_marker = false;  // see HintList
  };

  // `has_files`: records are files of `tree`, which lists them in some order.
  Readahead(const Tree& tree, uint64_t record_count, bool has_files, size_t window_max);

  // A reader asks for a record that takes storage, or was read ahead. True: it belongs to a run
  // that is read ahead.
  bool note_read(uint64_t record);

  [[nodiscard]] bool wants(size_t batch_count) const;
  // The next to be read; nullopt: none now.
  [[nodiscard]] std::optional<Next> take(size_t batch_count);

  // The last of it could not be taken.
  void put_back(uint64_t run);
  // What was read ahead for a run was not asked for.
  void note_waste(uint64_t run);

 private:
  enum class Order : uint8_t { kRecords, kListing };
  struct Run {
    uint64_t id = 0;
    Order order = Order::kRecords;
    uint64_t start = 0;
    uint64_t last = 0;
    uint64_t ahead = 0;        // the next to be read ahead, or kEnd
    uint64_t growth_at = 0;    // a reader that comes here has used what was read ahead
    unsigned length = 1;
    size_t window = 0;         // 0: not read ahead
    bool is_filling = false;   // has begun to, and is not at its end
    size_t since_marker = 0;
    uint64_t first_use = 0;
    uint64_t last_use = 0;
  };
  // Of both orders. Among few records, what is near by chance must not look like a run.
  static constexpr size_t kRunsMin = 4;
  static constexpr size_t kRunsMax = 64;
  static constexpr uint64_t kRecordsPerRun = 50;
  static constexpr uint64_t kEnd = UINT64_MAX;
  static constexpr unsigned kLengthMin = 3;
  static constexpr size_t kWindowFirstMin = 2;
  static constexpr size_t kWindowFirstMax = 8;
  static constexpr uint64_t kRecordsPerWindow = 100;

  [[nodiscard]] Run* find(Order order, uint64_t place);
  [[nodiscard]] bool is_passed(uint64_t record, Ino ino) const;
  void step(Run& run, uint64_t place);
  void begin(Order order, uint64_t place);
  [[nodiscard]] uint64_t wanted(const Run& run) const;
  [[nodiscard]] bool is_worth(const Run& run, size_t batch_count) const;
  void skip_covered(Run& run) const;
  [[nodiscard]] std::optional<Next> take_from(Run& run);

  const Tree& tree_;
  const uint64_t record_count_;
  const bool has_files_;
  const size_t window_max_;
  const size_t runs_max_;
  const size_t window_first_;
  std::vector<Run> runs_;
  uint64_t next_id_ = 1;
  uint64_t tick_ = 0;
};

}  // namespace ffrfs
