// One record on its way into memory, ahead of its readers: for whom, and what it takes.
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

// Owners above this are runs of readahead, those below lists of hints.
inline constexpr uint64_t kRunOwner = uint64_t{1} << 63;
[[nodiscard]] constexpr bool is_run_owner(uint64_t owner) { return (owner & kRunOwner) != 0; }

struct PrefetchTask {
  Hint hint;
  uint64_t owner = 0;  // a list, or a run of readahead
  uint64_t index = 0;  // in its list
  bool is_marker = false;
  UnitPlan plan{};
  size_t memory_bytes = 0;  // that its unit takes
  Reservation memory{};     // that much, until the unit is there
  bool is_copied = false;   // as it comes, with what is read beside it, it would not fit
  UnitPtr unit = nullptr;
  bool is_finished = false;
  bool is_to_push = false;

  [[nodiscard]] bool is_run() const { return is_run_owner(owner); }
  // Makes a plan for the record, in a file with that alignment, as if all of `limit_bytes`
  // was free. False: it is too large for that.
  [[nodiscard]] bool make_plan(const Extent& extent, size_t alignment, bool check_data,
                               size_t limit_bytes);
};

// Each task is handed over, on any thread, as soon as its unit is there or cannot be. The
// callback sets is_finished.
using HandOver = std::function<void(PrefetchTask& task, const std::exception_ptr& error)>;

// Reads them, sorted and merged; returns when all were handed over.
void read_tasks(std::vector<PrefetchTask>& tasks, Fetcher& fetcher, bool check_data,
                const HandOver& hand_over);

}  // namespace ffrfs
