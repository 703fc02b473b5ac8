// Sequential runs of reads, without hints: recognises them, and reads ahead of the reader.
//
//   reads     7 8 9 | 10 11 12 13 ...        a run, and how far ahead it is read:
//             └─ three in a row ─┘             start ....... last ....... ahead
//                                              └ read ahead or read ┘└ window ┘
//
// Two orders are recognised: the order of the records, and the order of the listings (in which
// inode numbers are assigned). A run is identified by its place, not by its reader: several
// readers may each have one, or share one. The window grows while the records read ahead are used,
// and shrinks when they are not. A run that meets records read ahead by another continues behind
// them.
//
// Plain data: the owner must lock, but for file_of() and record_at().

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tree/tree.h"

namespace ffrfs {

// Returns the record's file; 0 if there is none, or if the index is damaged there or far.
[[nodiscard]] Ino find_file(const Tree& tree, uint64_t record);

class Readahead {
 public:
  struct Next {
    uint64_t record = 0;
    Ino ino = 0;       // 0: the record has its own directory
    uint64_t run = 0;
    bool is_marker = false;  // see HintList
  };

  // `has_files`: records are files of `tree`, which lists them in some order.
  Readahead(const Tree& tree, uint64_t record_count, bool has_files, size_t window_max);

  // Returns the record's file, for note_read(); 0 if there is none. May wait for the index, so it
  // needs no lock.
  [[nodiscard]] Ino file_of(uint64_t record) const {
    return has_files_ && window_max_ > 0 ? find_file(tree_, record) : 0;
  }
  // Notes that a reader asks for a record that needs storage, or was read ahead. Returns true if it
  // belongs to a run that is read ahead.
  bool note_read(uint64_t record, Ino ino);

  [[nodiscard]] bool wants(size_t batch_count) const;
  // A place in the order of a run.
  enum class Order : uint8_t { kRecords, kListing };
  struct Place {
    Order order = Order::kRecords;
    uint64_t number = 0;
  };
  // Returns the places that take() looks up next, at most `limit`.
  [[nodiscard]] std::vector<Place> coming(size_t batch_count, size_t limit) const;
  // Returns the record to read there, or nullopt. As it may wait for the index and needs no lock,
  // it comes before take(), which then finds that part of the index in memory.
  [[nodiscard]] std::optional<uint64_t> record_at(const Place& place) const;
  // Returns the next record to read ahead; nullopt if there is none now.
  [[nodiscard]] std::optional<Next> take(size_t batch_count);

  // Puts back the record that was taken last.
  void put_back(uint64_t run);
  // Notes that a record which was read ahead for the run was dropped unread.
  void note_waste(uint64_t run);

 private:
  struct Run {
    uint64_t id = 0;
    Order order = Order::kRecords;
    uint64_t start = 0;
    uint64_t last = 0;
    uint64_t ahead = 0;        // the next to be read ahead, or kEnd
    uint64_t growth_at = 0;    // a reader that gets here has used the records read ahead
    unsigned length = 1;
    size_t window = 0;         // 0: no readahead
    bool is_filling = false;   // is being extended, and has not reached the window's end
    size_t since_marker = 0;
    uint64_t first_use = 0;
    uint64_t last_use = 0;
  };
  // Limits for both orders together. Among few records, chance must not look like a run.
  static constexpr size_t kRunsMin = 4;
  static constexpr size_t kRunsMax = 64;
  static constexpr uint64_t kRecordsPerRun = 50;
  static constexpr uint64_t kEnd = UINT64_MAX;  // of the records
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
