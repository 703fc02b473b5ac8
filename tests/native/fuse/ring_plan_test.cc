// native/fuse: how many rings machines of any size get, and how much memory the rings hold.

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "fuse/ring_plan.h"

using namespace ffrfs::fuse;

namespace {

constexpr size_t kMiB = 1 << 20;

std::vector<int> cpus(int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Return the memory of all threads while each uses only its two busiest entries.
size_t busy_bytes(const RingPlan& plan) { return plan.threads.size() * plan.payload_size * 2; }

}  // namespace

TEST_CASE("each CPU has its thread, and each of the kernel's queues is served once") {
  for (const int count : {1, 2, 3, 128, 512}) {
    const auto plan = plan_rings(static_cast<size_t>(count), cpus(count), 32 * kMiB);
    CHECK(plan.threads.size() == static_cast<size_t>(count));
    CHECK(plan.queue_count() == static_cast<size_t>(count));
    std::set<uint16_t> served;
    for (const RingThread& thread : plan.threads) {
      REQUIRE(thread.queues.size() == 1);
      CHECK(thread.cpu == thread.queues[0]);
      served.insert(thread.queues[0]);
    }
    CHECK(served.size() == static_cast<size_t>(count));
  }
}

TEST_CASE("CPUs that do not exist, or that the process may not use, share an unpinned thread") {
  const auto plan = plan_rings(128, {0, 5}, 32 * kMiB);
  REQUIRE(plan.threads.size() == 3);
  CHECK(plan.threads[0] == RingThread{.cpu = 0, .queues = {0}});
  CHECK(plan.threads[1] == RingThread{.cpu = 5, .queues = {5}});
  CHECK(plan.threads[2].cpu == -1);
  CHECK(plan.threads[2].queues.size() == 126);
  CHECK(plan.queue_count() == 128);
}

TEST_CASE("a plan for 128 CPUs stays within the limit; one for two has READs of a megabyte") {
  const auto large = plan_rings(128, cpus(128), 32 * kMiB);
  CHECK(large.payload_size == kMiB / 8);
  CHECK(busy_bytes(large) <= 32 * kMiB);
  CHECK(large.depth == 32);
  const auto small = plan_rings(2, cpus(2), 32 * kMiB);
  CHECK(small.payload_size == kMiB);
  CHECK(small.depth == 64);
  CHECK(plan_rings(2, cpus(2), 16 * kMiB).payload_size == kMiB / 2);
  CHECK(plan_rings(2, cpus(2), kMiB).payload_size == kMiB / 16);
  CHECK(plan_rings(2, cpus(2), 0).payload_size == kMiB / 16);  // no READ is smaller than this
  CHECK(plan_rings(4096, cpus(4096), 32 * kMiB).depth == 8);
}

TEST_CASE("count_cpus() counts the CPUs of a list and gives 0 for a bad one") {
  CHECK(count_cpus("0\n") == 1);
  CHECK(count_cpus("0-127\n") == 128);
  CHECK(count_cpus("0-3,8-11,16") == 9);
  for (const char* bad : {"", "\n", "0-", "-1", "3-1", "0,", "x", "0-99999999999", "0-1 "}) {
    CHECK(count_cpus(bad) == 0);
  }
}

TEST_CASE("this machine has CPUs that the process may use") {
  const auto own = own_cpus();
  CHECK(!own.empty());
  CHECK(possible_cpu_count() >= own.size());
}
