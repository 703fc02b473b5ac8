// One record that is read ahead: for which list or run, and how much memory it takes.
//
// Plain data: one thread at a time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include "fetch/budget.h"
#include "fetch/fetcher.h"
#include "fetch/unit.h"
#include "prefetch/hint.h"

namespace ffrfs {

// Owners with this bit are runs of readahead, those without are lists of hints.
inline constexpr uint64_t kRunOwner = uint64_t{1} << 63;
[[nodiscard]] constexpr bool is_run_owner(uint64_t owner) { return (owner & kRunOwner) != 0; }

struct PrefetchTask {
  Hint hint;
  uint64_t owner = 0;  // a list, or a run of readahead
  uint64_t index = 0;  // in its list
  bool is_marker = false;
  UnitPlan plan{};
  size_t memory_bytes = 0;  // of its unit
  Reservation memory{};     // reserves memory_bytes until the unit exists
  bool is_copied = false;   // has its own buffer, because a direct read's would be too large
  UnitPtr unit = nullptr;
  bool is_finished = false;
  bool is_to_push = false;

  [[nodiscard]] bool is_run() const { return is_run_owner(owner); }
  // Plans the read of the record, in a file with that alignment. Returns false if it needs more
  // than `limit_bytes`.
  [[nodiscard]] bool make_plan(const Extent& extent, size_t alignment, bool check_data,
                               size_t limit_bytes);
};

// Called with each task, on any thread, as soon as its unit was read or has failed. Sets
// is_finished. Without unit and error it was not read, for want of memory, threads or descriptors.
using HandOver = std::function<void(PrefetchTask& task, const std::exception_ptr& error)>;

// Reads the tasks, sorted and merged; returns when all were handed over.
void read_tasks(std::vector<PrefetchTask>& tasks, Fetcher& fetcher, bool check_data,
                const HandOver& hand_over);

}  // namespace ffrfs
