// How many rings there are, who serves which of the kernel's queues, and what they may hold.
//
// The kernel has a queue for each CPU that is possible on the machine, whether it is there or
// not, and uses none before each has an entry. A request goes to the queue of the CPU that asks.
// No state: any thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ffrfs::fuse {

struct RingThread {
  int cpu = -1;  // it is pinned there; -1: to none
  std::vector<uint16_t> queues;

  bool operator==(const RingThread&) const = default;
};

struct RingPlan {
  std::vector<RingThread> threads;
  size_t payload_size = 0;  // of an entry, in bytes: the largest READ
  size_t depth = 0;         // entries of a queue to begin with; it grows while all wait
  size_t limit_bytes = 0;   // what the entries may hold while they are idle

  [[nodiscard]] size_t queue_count() const;
  [[nodiscard]] std::vector<int> cpus() const;  // that threads are pinned to
};

// A thread for each of `own_cpus`, at which this process may run, pinned there; one for all
// other queues. `limit_bytes` bounds their memory while they are idle; answers that wait to be taken
// come to twice that at most, or to 4 MiB.
[[nodiscard]] RingPlan plan_rings(size_t possible_count, const std::vector<int>& own_cpus,
                                  size_t limit_bytes);

// Of "0-3,8": what /sys/devices/system/cpu/possible has. 0: it is no such list.
[[nodiscard]] size_t count_cpus(std::string_view list);

// Of this machine. Throws StorageError.
[[nodiscard]] size_t possible_cpu_count();
[[nodiscard]] std::vector<int> own_cpus();

}  // namespace ffrfs::fuse
