#include "tfrecord/tfrecord_scan.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "io/error.h"
#include "io/thread_pool.h"
#include "io/wait_check.h"

namespace ffrfs {
namespace {

using Clock = std::chrono::steady_clock;

// Frames up to this size are copied out of a window that was read at once.
constexpr uint64_t kSmallScannedSize = 16 << 10;
constexpr size_t kScanWindowSize = 256 << 10;
// After this many small frames in a row the scan returns to windows.
constexpr int kSmallRun = 4;
// The size of one read: so small that its memory is still in the CPU caches when malloc reuses it.
constexpr uint64_t kGroupSize = 1280 << 10;
// A read may have two records, one for each thread, up to this size.
constexpr uint64_t kPairSize = 8 << 20;
// Below this, a second thread costs more than it saves.
constexpr uint64_t kWorthSharingBytes = 256 << 10;
// How long the threads spin while they wait for each other: a wake-up takes 30 to 100 us.
constexpr auto kSpinTime = std::chrono::microseconds(200);
// The helper is woken if the caller comes back within this many times the duration of the last
// pass. A slower caller spends its time on other things than reading.
constexpr int kWorthCallingGap = 2;
// How far ahead the disk is kept busy, and how much the kernel accepts in one advice on any device.
constexpr uint64_t kAheadSize = 16 << 20;
constexpr uint64_t kAdviceSize = 128 << 10;

bool has_two_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) != 0 || CPU_COUNT(&cores) > 1;
}

// Spins until `is_over`, at most for kSpinTime, and yields to other threads on this core.
template <typename IsOver> void spin_until(IsOver is_over) {
  const auto end = Clock::now() + kSpinTime;
  while (!is_over() && Clock::now() < end) std::this_thread::yield();
}

}  // namespace

// One read(): its records, and then the headers of the records after them. The calling thread takes
// items from the front and the helper from the back, until they meet: so each core writes to memory
// that it has written before.
struct TfrecordScan::Pass {
  struct Item {
    FramePlace place;
    std::span<std::byte> target;
    std::exception_ptr error;
  };

  explicit Pass(TfrecordScan& owner) : scan(owner), file(owner.file_) {}

  TfrecordScan& scan;
  const Source& file;
  std::vector<Item> items;
  FramePlace end;  // after the last item
  std::atomic<bool> has_waited{false};
  std::atomic<size_t> taken{0};
  std::exception_ptr interruption;  // of the calling thread; ends the pass

  void run(bool is_helper) noexcept {
    const size_t last = items.size();
    for (size_t own = 0; taken.fetch_add(1, std::memory_order_relaxed) <= last; ++own) {
      const size_t index = is_helper ? last - own : own;
      try {
        if (index == last) {
          hop();
        } else {
          read(items[index]);
        }
      } catch (const Interrupted&) {
        interruption = std::current_exception();
        taken = last + 1;
      }
    }
  }

  void hop() {
    try {
      if (!scan.is_small_) scan.ahead_ = scan.hop(end);
    } catch (const std::exception&) {
      // next() will reach the same header, and throw.
    }
  }

  void read(Item& item) {
    try {
      read_checked(item);
    } catch (const std::exception&) {
      item.error = std::current_exception();
    }
  }

  void read_checked(const Item& item) {
    std::array<std::byte, kFrameTrailerSize> trailer;
    const uint64_t offset = item.place.offset + kFrameHeaderSize;
    with_second_try(file, offset, item.target.size() + trailer.size(), [&] {
      if (!file.read_now(offset, std::array<std::span<std::byte>, 2>{item.target, trailer})) {
        has_waited = true;
        file.read_fully(offset, item.target);
        file.read_fully(offset + item.target.size(), trailer);
      }
      if (scan.check_data_) check_frame(file, item.place, item.target, trailer);
    });
  }
};

// The second thread. It starts when it is called, and keeps spinning while passes follow each other
// at once: then no thread has to be woken.
class TfrecordScan::Helper {
 public:
  ~Helper() { state_ = State::kAway; }

  // `pass` is shared with the helper, if it comes in time, until settle().
  void offer(Pass& pass, bool is_worth_calling) {
    pass_ = &pass;
    callers_core_ = sched_getcpu();
    State seen = State::kWaiting;
    if (state_.compare_exchange_strong(seen, State::kOffered)) return;
    if (!is_worth_calling || !has_two_cores()) return;
    state_ = State::kOffered;
    try {
      thread_.submit([this] { stay(); });
    } catch (const std::system_error&) {
      state_ = State::kAway;  // no thread can be created: the caller does all the work
    }
  }

  // Takes back the pass if the helper has not started it, and waits if it has.
  void settle() {
    State seen = State::kOffered;
    if (state_.compare_exchange_strong(seen, State::kWaiting)) return;
    spin_until([this] { return state_ != State::kWorking; });
    state_.wait(State::kWorking);
  }

 private:
  // Only offer() leaves kAway. kWaiting: the helper is spinning, or starting.
  enum class State : int { kAway, kWaiting, kOffered, kWorking };

  void stay() {
    while (true) {
      spin_until([this] { return state_ != State::kWaiting || shares_core(); });
      State seen = State::kOffered;
      if (!shares_core() && state_.compare_exchange_strong(seen, State::kWorking)) {
        pass_->run(true);
        state_ = State::kWaiting;
        state_.notify_one();
        continue;
      }
      seen = state_;
      if (seen == State::kAway || state_.compare_exchange_strong(seen, State::kAway)) return;
    }
  }

  // Linux starts a thread on its creator's core, and leaves it there for tens of milliseconds while
  // both run; a sleeping thread is woken on a free core.
  [[nodiscard]] bool shares_core() const { return sched_getcpu() == callers_core_; }

  Pass* pass_ = nullptr;
  std::atomic<int> callers_core_{-1};
  std::atomic<State> state_{State::kAway};
  ThreadPool thread_{1};
};

TfrecordScan::TfrecordScan(std::shared_ptr<const Source> file, bool check_data)
    : owner_(std::move(file)),
      file_(*owner_),
      check_data_(check_data),
      helper_([] { return std::make_unique<Helper>(); }) {}

TfrecordScan::~TfrecordScan() = default;

std::span<const TfrecordScan::Record> TfrecordScan::next() {
  records_.clear();
  if (is_cold_) advise();
  if (is_small_) take_window();
  if (records_.empty() && !is_small_) take_hops();
  return records_;
}

void TfrecordScan::advise() {
  const uint64_t end = std::min(file_.size(), place_.offset + kAheadSize);
  for (advised_ = std::max(advised_, place_.offset); advised_ < end; advised_ += kAdviceSize) {
    file_.will_need(advised_, kAdviceSize);
  }
}

void TfrecordScan::take_window() {
  auto frame = frame_in_window();
  if (frame.empty() && is_small_) {
    fill_window();
    frame = frame_in_window();
  }
  while (!frame.empty()) {
    const auto data = frame.subspan(kFrameHeaderSize, frame.size() - kFramingSize);
    try {
      if (check_data_) check_in_window(frame);
    } catch (const ChecksumError&) {
      if (!records_.empty()) return;
      left_ = left_.subspan(frame.size());
      step(frame.size());
      throw;
    }
    records_.push_back({data.size(), data.data()});
    left_ = left_.subspan(frame.size());
    step(frame.size());
    try {
      frame = frame_in_window();
    } catch (const FormatError&) {
      return;
    }
  }
}

void TfrecordScan::check_in_window(std::span<const std::byte> frame) const {
  const auto data = frame.subspan(kFrameHeaderSize, frame.size() - kFramingSize);
  with_second_try(file_, place_.offset, frame.size(), [&, is_again = false]() mutable {
    if (std::exchange(is_again, true)) {
      const auto begin = static_cast<size_t>(frame.data() - window_.data());
      file_.read_fully(place_.offset, window_.first(begin + frame.size()).subspan(begin));
    }
    check_frame(file_, place_, data, frame.last(kFrameTrailerSize));
  });
}

void TfrecordScan::fill_window() {
  if (window_.capacity() == 0) window_ = BufferPool(0).acquire(kScanWindowSize);
  const auto bytes = window_.first(
      static_cast<size_t>(std::min<uint64_t>(file_.size() - place_.offset, kScanWindowSize)));
  if (is_cold_ || !file_.read_cached(place_.offset, bytes)) {
    if (!std::exchange(is_cold_, true)) advise();
    file_.read_fully(place_.offset, bytes);
  }
  left_ = bytes;
}

// Returns the next frame, if it is small and all of it is in the window.
std::span<const std::byte> TfrecordScan::frame_in_window() {
  const bool is_cut =
      left_.size() < kFrameHeaderSize && left_.size() < file_.size() - place_.offset;
  if (left_.empty() || is_cut) return {};
  const uint64_t size = sound_frame_size(
      file_, place_, left_.first(std::min(left_.size(), kFrameHeaderSize)), check_data_);
  is_small_ = size <= kSmallScannedSize;
  if (!is_small_) left_ = {};
  return size <= left_.size() ? left_.first(static_cast<size_t>(size))
                              : std::span<const std::byte>();
}

void TfrecordScan::take_hops() {
  if (ahead_.records.empty() || ahead_.begin != place_.offset) ahead_ = hop(place_);
  records_.swap(ahead_.records);
  is_small_ = ahead_.ends_small;
  ahead_ = {};
}

TfrecordScan::Group TfrecordScan::hop(FramePlace place) const {
  Group group{place.offset, {}, false};
  uint64_t size = 0;
  int small_run = 0;
  while (place.offset < file_.size() && !group.ends_small) {
    const size_t count = group.records.size();
    uint64_t frame = 0;
    try {
      frame = read_frame_size(file_, place, check_data_);
    } catch (const std::exception&) {
      if (count == 0) throw;
      break;
    }
    size += frame;
    if (count > 0 && size > (count == 1 ? kPairSize : kGroupSize)) break;
    group.records.push_back({frame - kFramingSize, nullptr});
    small_run = frame <= kSmallScannedSize ? small_run + 1 : 0;
    group.ends_small = small_run == kSmallRun;
    place = {place.record + 1, place.offset + frame};
  }
  return group;
}

size_t TfrecordScan::read(std::span<const std::span<std::byte>> targets) {
  Pass pass(*this);
  FramePlace place = place_;
  for (const auto target : targets) {
    pass.items.push_back({place, target, nullptr});
    place = {place.record + 1, place.offset + target.size() + kFramingSize};
  }
  pass.end = place;
  run(pass);
  if (pass.interruption) std::rethrow_exception(pass.interruption);
  is_cold_ = is_cold_ || pass.has_waited;
  for (size_t good = 0; good < targets.size(); ++good) {
    const uint64_t frame = targets[good].size() + kFramingSize;
    try {
      if (pass.items[good].error) std::rethrow_exception(pass.items[good].error);
    } catch (const ChecksumError&) {
      if (good > 0) return good;
      step(frame);
      throw;
    } catch (const StorageError&) {
      if (good > 0) return good;
      throw;
    }
    step(frame);
  }
  return targets.size();
}

void TfrecordScan::run(Pass& pass) {
  const auto begin = Clock::now();
  const uint64_t size = pass.end.offset - place_.offset;
  // The helper does not wait for a server, because Ctrl-C would not end that.
  if (pass.items.size() > 1 && size >= kWorthSharingBytes &&
      file_.is_near(place_.offset, static_cast<size_t>(size))) {
    Helper& helper = helper_.get();
    helper.offer(pass, begin - run_end_ <= kWorthCallingGap * run_time_);
    pass.run(false);
    helper.settle();
  } else {
    pass.run(false);
  }
  run_end_ = Clock::now();
  run_time_ = run_end_ - begin;
}

}  // namespace ffrfs
