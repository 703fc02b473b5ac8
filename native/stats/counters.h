// What a volume has done so far, and what it holds now. Any thread; relaxed, for people
// to look at. The names of the rows are what `ffrfs stats` shows.

#pragma once

#include <cstdint>

#include "stats/counter_page.h"

namespace ffrfs {

class Counters {
  CounterPage page_;  // first: all others lie in it

 public:
  // `shared_fd`: see CounterPage.
  explicit Counters(int shared_fd = -1) : page_(shared_fd) {}

  [[nodiscard]] CounterPage& page() { return page_; }

  Counter& reads = page_.row("reads");                        // requests for bytes of a file
  Counter& bytes_served = page_.row("bytes_served");          // answered to them
  Counter& bytes_memory = page_.row("bytes_memory");          // of it, from what was held
  Counter& bytes_page_cache = page_.row("bytes_page_cache");  // read without waiting
  Counter& bytes_storage = page_.row("bytes_storage");        // waited for
  Counter& checksums_verified = page_.row("checksums_verified");
  Counter& checksums_failed = page_.row("checksums_failed");

  // Read ahead for hints, in records, and for runs without a hint:
  Counter& prefetch_hinted = page_.row("prefetch_hinted");
  Counter& prefetch_fetched = page_.row("prefetch_fetched");
  Counter& prefetch_pushed = page_.row("prefetch_pushed");    // into the kernel's page cache
  Counter& prefetch_hit = page_.row("prefetch_hit");          // ready when a reader came
  Counter& prefetch_late = page_.row("prefetch_late");        // asked for before
  Counter& prefetch_dropped = page_.row("prefetch_dropped");  // hints that came to nothing
  Counter& prefetch_too_large = page_.row("prefetch_too_large");  // for what may be held
  Counter& prefetch_wasted_bytes = page_.row("prefetch_wasted_bytes");  // fetched for them
  Counter& prefetch_depth_max = page_.row("prefetch_depth_max");  // under way at a time
  Counter& readahead_fetched = page_.row("readahead_fetched");
  Counter& readahead_pushed = page_.row("readahead_pushed");
  Counter& readahead_hit = page_.row("readahead_hit");
  Counter& readahead_wasted_bytes = page_.row("readahead_wasted_bytes");

  // Neighbours of files that are read in no order (prefetch/read_around.h), in records:
  Counter& around_pushed = page_.row("around_pushed");
  Counter& around_read_bytes = page_.row("around_read_bytes");  // of the packs, for them
  Counter& around_controls = page_.row("around_controls");      // left out on purpose
  Counter& around_controls_read = page_.row("around_controls_read");
  Counter& around_given_up = page_.row("around_given_up");      // how often it was wrong

  // What `ffrfs warm` asked for, in files:
  Counter& warm_files = page_.row("warm_files");
  Counter& warm_pushed = page_.row("warm_pushed");
  Counter& warm_left_out = page_.row("warm_left_out");  // for want of room
  Counter& warm_begun = page_.row("warm_begun");  // parts of the tree

  // Now, not so far:
  Counter& warm_left = page_.row("warm_left");
  Counter& around_unread_bytes = page_.row("around_unread_bytes");  // pushed, by the controls
  Counter& queue_depth = page_.row("queue_depth");          // fetches from storage
  Counter& uring_queues = page_.row("uring_queues");        // of io_uring; 0: /dev/fuse alone
  // Memory, by account (budget.h):
  Counter& bytes_in_flight = page_.row("bytes_in_flight");
  Counter& bytes_kept = page_.row("bytes_kept");
  Counter& bytes_prefetched = page_.row("bytes_prefetched");
  Counter& bytes_metadata = page_.row("bytes_metadata");
};

}  // namespace ffrfs
