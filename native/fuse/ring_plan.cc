#include "fuse/ring_plan.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>

#include "io/error.h"
#include "io/file_descriptor.h"

namespace ffrfs::fuse {
namespace {

constexpr size_t kPayloadSizeMax = 1 << 20;
constexpr size_t kPayloadSizeMin = 64 << 10;
constexpr size_t kHotEntryCount = 2;  // of a busy thread
// The kernel's limit of background READs (kernel_mount.py). While the threads are busy with other
// requests, the answers to all of these READs may wait to be taken.
constexpr size_t kBackgroundRequests = 64;
constexpr size_t kEntryCount = 4096;  // of all queues together, at the start
constexpr size_t kDepthMin = 8;
constexpr size_t kDepthMax = 64;
constexpr size_t kCpuCountMax = 8192;  // of any Linux
constexpr const char* kPossiblePath = "/sys/devices/system/cpu/possible";

std::optional<size_t> parse_number(std::string_view text) {
  size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && rest == end ? std::optional(number) : std::nullopt;
}

}  // namespace

size_t RingPlan::queue_count() const {
  size_t count = 0;
  for (const RingThread& thread : threads) count += thread.queues.size();
  return count;
}

std::vector<int> RingPlan::cpus() const {
  std::vector<int> found;
  for (const RingThread& thread : threads) {
    if (thread.cpu >= 0) found.push_back(thread.cpu);
  }
  return found;
}

RingPlan plan_rings(size_t possible_count, const std::vector<int>& own_cpus, size_t limit_bytes) {
  RingPlan plan{
      .threads = {}, .payload_size = kPayloadSizeMax, .depth = 0, .limit_bytes = limit_bytes};
  RingThread others;
  for (size_t queue = 0; queue < possible_count; ++queue) {
    const auto cpu = static_cast<int>(queue);
    const auto id = static_cast<uint16_t>(queue);
    if (std::ranges::find(own_cpus, cpu) == own_cpus.end()) {
      others.queues.push_back(id);
    } else {
      plan.threads.push_back({.cpu = cpu, .queues = {id}});
    }
  }
  if (!others.queues.empty()) plan.threads.push_back(std::move(others));
  plan.depth = std::clamp(kEntryCount / std::max<size_t>(possible_count, 1), kDepthMin, kDepthMax);
  const size_t hot_count = kHotEntryCount * plan.threads.size();
  while (plan.payload_size > kPayloadSizeMin &&
         (plan.payload_size * hot_count > limit_bytes ||
          plan.payload_size * kBackgroundRequests > 2 * limit_bytes)) {
    plan.payload_size /= 2;
  }
  return plan;
}

size_t count_cpus(std::string_view list) {
  if (list.ends_with('\n')) list.remove_suffix(1);
  size_t count = 0;
  while (true) {
    const std::string_view range = list.substr(0, list.find(','));
    const size_t dash = range.find('-');
    const auto first = parse_number(range.substr(0, dash));
    const auto last = dash == range.npos ? first : parse_number(range.substr(dash + 1));
    if (!first || !last || *last < *first || *last >= kCpuCountMax) return 0;
    count += *last - *first + 1;
    if (range.size() == list.size()) return count <= kCpuCountMax ? count : 0;
    list.remove_prefix(range.size() + 1);
  }
}

size_t possible_cpu_count() {
  std::array<char, 256> text{};
  const FileDescriptor file(open(kPossiblePath, O_RDONLY | O_CLOEXEC));
  const ssize_t size = file.valid() ? read(file.get(), text.data(), text.size()) : -1;
  if (size < 0) throw StorageError(errno, kPossiblePath, "cannot read");
  const size_t count = count_cpus({text.data(), static_cast<size_t>(size)});
  if (count == 0) throw StorageError(EINVAL, kPossiblePath, "not a list of CPUs");
  return count;
}

std::vector<int> own_cpus() {
  std::vector<int> cpus;
  const auto free_set = [](cpu_set_t* set) { CPU_FREE(set); };
  const std::unique_ptr<cpu_set_t, decltype(free_set)> set(CPU_ALLOC(kCpuCountMax), free_set);
  const size_t size = CPU_ALLOC_SIZE(kCpuCountMax);
  if (!set || sched_getaffinity(0, size, set.get()) != 0) {
    throw StorageError(errno, "", "cannot ask for the CPUs of this process");
  }
  for (size_t cpu = 0; cpu < kCpuCountMax; ++cpu) {
    if (CPU_ISSET_S(cpu, size, set.get())) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

}  // namespace ffrfs::fuse
