// native/volume/event_turns.h: of many threads that wait for one event, none misses its result. No
// wait here has a time limit, so a missed result shows as a wait that never ends.

#include "volume/event_turns.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <semaphore>
#include <thread>
#include <utility>

#include "prefetch_rig.h"
#include "threads.h"
#include "trial_source.h"
#include "volume/blocking_volume.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

constexpr int kForEver = -1;

bool never() { return false; }

// An event that occurs each time it is released, and brings one callback each time.
struct Rig {
  // Makes the first poll() last until `goes_on`.
  void stop_first() { is_stopping = true; }

  std::counting_semaphore<> waits{0};
  std::counting_semaphore<> event{0};
  std::binary_semaphore polls{0};
  std::binary_semaphore goes_on{0};
  std::atomic<bool> is_stopping = false;
  std::atomic<int> polled = 0;
  EventTurns turns{{.wait = [this](int) {
    waits.release();
    event.acquire();
  }, .poll = [this]() -> size_t {
    ++polled;
    if (is_stopping.exchange(false)) {
      polls.release();
      goes_on.acquire();
    }
    return 1;
  }, .wake = [this] { event.release(); }}};
};

}  // namespace

TEST_CASE("a thread returns when the poll() of another has brought its result") {
  Rig rig;
  std::jthread first([&] { rig.turns.wait(never, kForEver); });
  rig.waits.acquire();
  bool is_first_look = true;
  rig.turns.wait([&] {
    const bool was_there = rig.polled > 0;
    // The only event occurs after this look.
    if (std::exchange(is_first_look, false)) rig.event.release();
    return was_there;
  }, kForEver);
  CHECK(rig.polled > 0);
}

TEST_CASE("a thread that waits for the event returns when another brings its result") {
  Rig rig;
  rig.stop_first();
  std::jthread slow([&] { rig.turns.wait(never, kForEver); });
  rig.event.release();
  rig.polls.acquire();
  rig.waits.acquire();
  std::jthread other([&] { rig.turns.wait(never, kForEver); });
  rig.waits.acquire();  // while the first thread still runs callbacks
  CHECK(rig.polled == 1);
  rig.goes_on.release();
}

TEST_CASE("threads that read one volume go on without a timeout") {
  constexpr uint32_t kThreadCount = 4;
  constexpr size_t kReadCount = 2'000;  // for each thread; a race would miss one in some hundred
  const std::vector<Bytes> records = patterns(kThreadCount * kReadCount, 100);
  Volume volume({"far://bucket/plain.ffr"},
                {.packs = {.open_source = open_trial(std::make_shared<Trial>(ffrecord(records)))}});
  std::atomic<size_t> wrong = 0;
  in_threads(kThreadCount, [&](uint32_t thread) {
    for (size_t record = thread; record < records.size(); record += kThreadCount) {
      const Slice slice =
          BlockingVolume(volume, [] {}, kForEver).read(record + 2, 0, records[record].size());
      if (text(slice.bytes) != records[record]) ++wrong;
    }
  });
  CHECK(wrong == 0);
}
