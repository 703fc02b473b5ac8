// The options of a volume, and the one table of their names: the worker's command line
// (worker/worker.cc) and the keywords of Python's Volume use these names.
//
// A new option needs a member and a row in volume_options.cc, and a line of volume_options() in
// ffrfs/mount/config/request.py.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "open/open_packs.h"
#include "prefetch/prefetcher.h"

namespace ffrfs {

struct VolumeOptions {
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t umask = 0;  // removed from all permissions but those of links
  size_t cache_bytes = size_t{256} << 20;  // memory of the read path; see limit_cache()
  bool check_data = true;
  PackPolicy packs{};
  int counters_fd = -1;  // see CounterPage
  PrefetchOptions prefetch{};

  // Numbers are decimal, flags 0 or 1. Throws std::invalid_argument, which names the option.
  void set(std::string_view name, std::string_view value);
};

}  // namespace ffrfs
