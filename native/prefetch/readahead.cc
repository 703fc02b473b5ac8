#include "prefetch/readahead.h"

#include <algorithm>
#include <exception>

#include "io/source.h"

namespace ffrfs {
namespace {

// Both functions return nothing if the index is damaged there (readers of it get the error), and
// pass FarAway on.
Ino load_file(const Tree& tree, uint64_t record) {
  try {
    return tree.file_of(record);
  } catch (const FarAway&) {
    throw;
  } catch (const std::exception&) {
    return 0;
  }
}

std::optional<Inode> find_inode(const Tree& tree, Ino ino) {
  try {
    return tree.inode(ino);
  } catch (const FarAway&) {
    throw;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

Ino find_file(const Tree& tree, uint64_t record) {
  try {
    return load_file(tree, record);
  } catch (const FarAway& index) {
    index.will_need();
    return 0;
  }
}

Readahead::Readahead(const Tree& tree, uint64_t record_count, bool has_files, size_t window_max)
    : tree_(tree),
      record_count_(record_count),
      has_files_(has_files),
      window_max_(window_max),
      runs_max_(std::clamp<uint64_t>(record_count / kRecordsPerRun, kRunsMin, kRunsMax)),
      window_first_(std::clamp<uint64_t>(record_count / kRecordsPerWindow, kWindowFirstMin,
                                         kWindowFirstMax)) {}

bool Readahead::note_read(uint64_t record, Ino ino) {
  if (window_max_ == 0) return false;
  ++tick_;
  if (is_passed(record, ino)) return true;
  Run* const by_record = find(Order::kRecords, record);
  Run* const by_listing = ino != 0 ? find(Order::kListing, ino) : nullptr;
  // If both orders match, one may be chance: prefer the run that was used last.
  const bool is_listing =
      by_listing && by_listing->window > 0 &&
      (!by_record || by_record->window == 0 || by_listing->last_use > by_record->last_use);
  if (by_record && !is_listing) step(*by_record, record);
  if (by_record && !is_listing && by_record->window > 0) return true;
  if (by_listing) step(*by_listing, ino);
  if (by_listing && by_listing->window > 0) return true;
  if (!by_record) begin(Order::kRecords, record);
  if (!by_listing && ino != 0) begin(Order::kListing, ino);
  return false;
}

// Returns the run that continues at `place`; of several, the one used last, because the others may
// have been abandoned.
Readahead::Run* Readahead::find(Order order, uint64_t place) {
  Run* found = nullptr;
  for (Run& run : runs_) {
    const bool is_next = place == run.last + 1 || (place > run.last && place <= run.ahead);
    if (run.order == order && is_next && (!found || run.last_use > found->last_use)) found = &run;
  }
  return found;
}

// Returns whether the place is behind a run that passed it recently: readers share that run.
bool Readahead::is_passed(uint64_t record, Ino ino) const {
  return std::ranges::any_of(runs_, [&](const Run& run) {
    const uint64_t place = run.order == Order::kRecords ? record : ino;
    return run.window > 0 && run.start <= place && place <= run.last &&
           run.last - place <= window_max_ && tick_ - run.last_use <= kRunsMax;
  });
}

void Readahead::step(Run& run, uint64_t place) {
  run.last_use = tick_;
  run.last = place;
  if (run.window == 0) {
    if (++run.length < kLengthMin) return;
    run.window = std::min(window_first_, window_max_);
    run.start = place;
    run.ahead = run.growth_at = place + 1;
    return;
  }
  if (place >= run.growth_at) {
    run.window = std::min(run.window * 2, window_max_);
    run.growth_at = run.ahead;
  }
  run.ahead = std::max(run.ahead, place + 1);
}

void Readahead::begin(Order order, uint64_t place) {
  for (const Run& run : runs_) {
    if (run.order == order && (run.last == place)) return;  // a repeated READ, or just continued
  }
  const Run fresh{.id = next_id_++,
                  .order = order,
                  .start = place,
                  .last = place,
                  .ahead = place + 1,
                  .growth_at = place + 1,
                  .first_use = tick_,
                  .last_use = tick_};
  if (runs_.size() < runs_max_) {
    runs_.push_back(fresh);
    return;
  }
  *std::ranges::min_element(runs_, {}, &Run::last_use) = fresh;
}

uint64_t Readahead::wanted(const Run& run) const {
  if (run.window == 0) return 0;
  const uint64_t target = run.last + 1 + run.window;
  return target > run.ahead ? target - run.ahead : 0;
}

// Waits until part of the window is used, so that a batch is worthwhile.
bool Readahead::is_worth(const Run& run, size_t batch_count) const {
  const uint64_t count = wanted(run);
  return count > 0 && (run.is_filling || count >= std::min<uint64_t>(batch_count, run.window / 2));
}

bool Readahead::wants(size_t batch_count) const {
  return std::ranges::any_of(runs_, [&](const Run& run) { return is_worth(run, batch_count); });
}

std::vector<Readahead::Place> Readahead::coming(size_t batch_count, size_t limit) const {
  std::vector<Place> places;
  for (const Run& run : runs_) {
    const uint64_t count = is_worth(run, batch_count) ? wanted(run) : 0;
    for (uint64_t i = 0; i < count && places.size() < limit; ++i) {
      places.push_back({run.order, run.ahead + i});
    }
  }
  return places;
}

std::optional<uint64_t> Readahead::record_at(const Place& place) const {
  try {
    if (place.order == Order::kListing) {
      const auto inode = find_inode(tree_, place.number);
      return inode && inode->is_file() ? std::optional(inode->record) : std::nullopt;
    }
    const bool has_record =
        place.number < record_count_ && (!has_files_ || load_file(tree_, place.number) != 0);
    return has_record ? std::optional(place.number) : std::nullopt;
  } catch (const FarAway& index) {
    index.will_need();
    return std::nullopt;
  }
}

std::optional<Readahead::Next> Readahead::take(size_t batch_count) {
  for (Run& run : runs_) {
    if (!is_worth(run, batch_count)) continue;
    skip_covered(run);
    std::optional<Next> next;
    try {
      next = take_from(run);
    } catch (const FarAway& index) {  // continues there when the index has come
      --run.ahead;
      index.will_need();
    }
    run.is_filling = wanted(run) > 0;
    if (next) return next;
  }
  return std::nullopt;
}

// Skips places that other active runs read ahead, or have recently.
void Readahead::skip_covered(Run& run) const {
  for (const Run& other : runs_) {
    if (other.id != run.id && other.order == run.order && other.window > 0 &&
        other.last_use > run.first_use && other.start <= run.ahead && run.ahead < other.ahead &&
        other.last < run.ahead + window_max_) {
      run.ahead = other.ahead;
    }
  }
}

std::optional<Readahead::Next> Readahead::take_from(Run& run) {
  while (wanted(run) > 0) {
    const uint64_t place = run.ahead++;
    Next next{.record = place, .run = run.id};
    if (run.order == Order::kListing) {
      const auto inode = find_inode(tree_, place);
      if (!inode || !inode->is_file()) continue;
      next.record = inode->record;
      next.ino = place;
    } else {
      if (place >= record_count_) {
        run.ahead = kEnd;
        break;
      }
      if (has_files_ && (next.ino = load_file(tree_, place)) == 0) continue;  // a pack's index
    }
    next.is_marker = ++run.since_marker * 4 >= run.window;
    if (next.is_marker) run.since_marker = 0;
    return next;
  }
  return std::nullopt;
}

void Readahead::put_back(uint64_t run_id) {
  for (Run& run : runs_) {
    if (run.id == run_id && run.ahead > run.last + 1) --run.ahead;
  }
}

void Readahead::note_waste(uint64_t run_id) {
  for (Run& run : runs_) {
    if (run.id == run_id && run.window > 0) run.window = std::max(run.window / 2, size_t{1});
  }
}

}  // namespace ffrfs
