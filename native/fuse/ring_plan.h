// The number of rings, which thread serves which of the kernel's queues, and the limits of their
// memory.
//
// The kernel has a queue for each CPU that is possible on the machine, present or not, and uses
// none until each has an entry. A request goes to the queue of the caller's CPU. Functions without
// state; thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ffrfs::fuse {

struct RingThread {
  int cpu = -1;  // pinned to this CPU; -1: not pinned
  std::vector<uint16_t> queues;

  bool operator==(const RingThread&) const = default;
};

struct RingPlan {
  std::vector<RingThread> threads;
  size_t payload_size = 0;  // of an entry, in bytes: the largest READ
  size_t depth = 0;         // entries of a queue at the start; more are added when few are idle
  size_t limit_bytes = 0;   // the most memory of idle entries

  [[nodiscard]] size_t queue_count() const;
  [[nodiscard]] std::vector<int> cpus() const;  // those that threads are pinned to
};

// Plans a thread for each of `own_cpus`, which this process may use, pinned there, and one for all
// other queues. `limit_bytes` bounds the memory of idle entries; answers that wait to be taken have
// at most twice that, or 4 MiB.
[[nodiscard]] RingPlan plan_rings(size_t possible_count, const std::vector<int>& own_cpus,
                                  size_t limit_bytes);

// Counts the CPUs of a list such as "0-3,8" (/sys/devices/system/cpu/possible); 0 if malformed.
[[nodiscard]] size_t count_cpus(std::string_view list);

// For this machine. Throws StorageError.
[[nodiscard]] size_t possible_cpu_count();
[[nodiscard]] std::vector<int> own_cpus();

}  // namespace ffrfs::fuse
