// What a volume has done so far, and what it holds now. Any thread; relaxed, for people
// to look at. The names of the rows are what `ffrfs stats` shows.

#pragma once

#include <cstdint>

#include "volume/counter_page.h"

namespace ffrfs {

class Counters {
  CounterPage page_;  // first: all others lie in it

 public:
  // `shared_fd`: see CounterPage.
  explicit Counters(int shared_fd = -1) : page_(shared_fd) {}

  [[nodiscard]] CounterPage& page() { return page_; }

  Counter& reads = page_.row("reads");                        // requests for bytes of a file
  Counter& bytes_served = page_.row("bytes_served");          // answered to them
  Counter& bytes_memory = page_.row("bytes_memory");          // from blocks held in memory
  Counter& bytes_page_cache = page_.row("bytes_page_cache");  // read without waiting
  Counter& bytes_storage = page_.row("bytes_storage");        // waited for
  Counter& checksums_verified = page_.row("checksums_verified");
  Counter& checksums_failed = page_.row("checksums_failed");

  // Now, not so far:
  Counter& queue_depth = page_.row("queue_depth");          // fetches from storage
  Counter& bytes_in_flight = page_.row("bytes_in_flight");  // of those under way
  Counter& bytes_kept = page_.row("bytes_kept");            // blocks held in memory
};

}  // namespace ffrfs
