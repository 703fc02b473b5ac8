// Counts what a volume has done so far, and the memory that it holds now. Thread-safe.
// Updated with relaxed order, because only people read the numbers. `ffrfs stats` shows the rows.

#pragma once

#include <cstdint>

#include "stats/counter_page.h"

namespace ffrfs {

class Counters {
  CounterPage page_;  // first, because the others are references into it

 public:
  // `shared_fd`: see CounterPage.
  explicit Counters(int shared_fd = -1) : page_(shared_fd) {}

  // Clears the amounts that an earlier process with this page held. Must run after that process has
  // ended: it serves on while the next one opens the packs.
  void begin() {
    for (Counter* const value :
         {&warm_left, &around_unread_bytes, &queue_depth, &uring_queues, &bytes_in_flight,
          &bytes_kept, &bytes_prefetched, &bytes_metadata, &on_trial}) {
      *value = 0;
    }
  }

  [[nodiscard]] CounterPage& page() { return page_; }

  Counter& reads = page_.row("reads");                        // reads of files
  Counter& bytes_served = page_.row("bytes_served");          // returned by them
  Counter& bytes_memory = page_.row("bytes_memory");          // of these, from units in memory
  Counter& bytes_page_cache = page_.row("bytes_page_cache");  // read without waiting
  Counter& bytes_storage = page_.row("bytes_storage");        // read with waiting
  Counter& checksums_verified = page_.row("checksums_verified");
  Counter& checksums_failed = page_.row("checksums_failed");

  // Readahead for hints, in records, and for runs without hints:
  Counter& prefetch_hinted = page_.row("prefetch_hinted");
  Counter& prefetch_fetched = page_.row("prefetch_fetched");
  Counter& prefetch_pushed = page_.row("prefetch_pushed");    // into the kernel's page cache
  Counter& prefetch_hit = page_.row("prefetch_hit");          // in memory before a reader came
  Counter& prefetch_late = page_.row("prefetch_late");        // read before they were in memory
  Counter& prefetch_dropped = page_.row("prefetch_dropped");  // hints given up unread
  Counter& prefetch_too_large = page_.row("prefetch_too_large");  // for the budget
  Counter& prefetch_wasted_bytes = page_.row("prefetch_wasted_bytes");  // fetched, not read
  Counter& prefetch_depth_max = page_.row("prefetch_depth_max");  // the most reads in flight
  Counter& readahead_fetched = page_.row("readahead_fetched");
  Counter& readahead_pushed = page_.row("readahead_pushed");
  Counter& readahead_hit = page_.row("readahead_hit");
  Counter& readahead_wasted_bytes = page_.row("readahead_wasted_bytes");

  // Neighbours of files that are read in no order (prefetch/read_around.h), in records:
  Counter& around_pushed = page_.row("around_pushed");
  Counter& around_read_bytes = page_.row("around_read_bytes");  // read from the packs for them
  Counter& around_controls = page_.row("around_controls");      // left out on purpose
  Counter& around_controls_read = page_.row("around_controls_read");
  Counter& around_given_up = page_.row("around_given_up");  // how often reading them was wrong

  // Files that `ffrfs warm` asked for:
  Counter& warm_files = page_.row("warm_files");
  Counter& warm_pushed = page_.row("warm_pushed");
  Counter& warm_left_out = page_.row("warm_left_out");  // for want of room
  Counter& warm_begun = page_.row("warm_begun");  // parts of the tree

  // Present values, not sums:
  Counter& warm_left = page_.row("warm_left");
  Counter& around_unread_bytes = page_.row("around_unread_bytes");  // an estimate by the controls
  Counter& queue_depth = page_.row("queue_depth");  // fetches from storage
  Counter& uring_queues = page_.row("uring_queues");  // of io_uring; 0: only /dev/fuse
  Counter& on_trial = page_.row("on_trial");  // the key of a suspect (worker/trial.h)
  // Memory, by account (budget.h):
  Counter& bytes_in_flight = page_.row("bytes_in_flight");
  Counter& bytes_kept = page_.row("bytes_kept");
  Counter& bytes_prefetched = page_.row("bytes_prefetched");
  Counter& bytes_metadata = page_.row("bytes_metadata");
};

}  // namespace ffrfs
