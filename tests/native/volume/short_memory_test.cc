// native/volume: a read for which there is no memory gets an error, and holds up no other.

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <exception>
#include <fstream>
#include <memory>
#include <new>

#include "prefetch_rig.h"
#include "trial_source.h"
#include "volume/blocking_volume.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

constexpr Ino kOnlyFile = 2;

// While an object of this class exists, this process can map only a little more memory.
class ShortMemory {
 public:
  ShortMemory() {
    REQUIRE(getrlimit(RLIMIT_AS, &before_) == 0);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit{pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kMib, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
  }
  ~ShortMemory() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

// How a read ended.
struct Outcome {
  bool is_ready = false;
  Bytes bytes;
  std::exception_ptr error;
};

void begin_read(Volume& volume, uint64_t offset, size_t size, Outcome& outcome) {
  const auto now = volume.read(kOnlyFile, offset, size, [&](Slice slice, std::exception_ptr error) {
    outcome = {.is_ready = true, .bytes = text(slice.bytes), .error = std::move(error)};
  });
  REQUIRE(!now);
}

}  // namespace

TEST_CASE("a read without memory for all its chunks fails; other reads get their bytes") {
  const Bytes record = pattern(12 * kMib, 1);
  const auto trial = std::make_shared<Trial>(ffrecord({record}));
  Volume volume({"far://bucket/plain.ffr"}, {.packs = {.open_source = open_trial(trial)}});
  const auto wait_for = [&](const Outcome& outcome) {
    return wait_until([&] {
      volume.wait(5);
      volume.poll();
      return outcome.is_ready;
    });
  };
  // This read makes the fingerprints of the record, and starts the threads.
  Outcome first;
  begin_read(volume, 10 * kMib, 1, first);
  REQUIRE(wait_for(first));

  Outcome large;
  Outcome small;  // reads a chunk that the large read has begun to fetch
  begin_read(volume, 100, 3 * kMib, large);
  begin_read(volume, 3 * kMib + 1, 5, small);
  {
    const ShortMemory now;
    CHECK(wait_for(large));
    CHECK(wait_for(small));
  }
  REQUIRE(large.error);
  CHECK_THROWS_AS(std::rethrow_exception(large.error), std::bad_alloc);
  CHECK_FALSE(small.error);
  CHECK(small.bytes == record.substr(3 * kMib + 1, 5));

  // The same read again, with memory.
  const Slice again = BlockingVolume(volume).read(kOnlyFile, 100, 3 * kMib);
  CHECK(text(again.bytes) == record.substr(100, 3 * kMib));
}
