// native/fetch: a unit is kept until all of its bytes were handed out, by any threads.

#include "fetch/demand_reader.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "fetch/fetcher.h"

using namespace ffrfs;

TEST_CASE("a unit whose parts two threads hand out at once is not kept") {
  constexpr size_t kSize = 8192;
  constexpr uint64_t kUnits = 20'000;
  const ShardSet shards({});
  Counters counters;
  Fetcher fetcher(shards, counters);
  DemandReader reader(fetcher);
  std::atomic<uint64_t> arrived{0};
  std::vector<UnitPtr> units;
  for (uint64_t i = 0; i < kUnits; ++i) units.push_back(fetcher.make_unit(64));
  const auto serve = [&] {
    for (uint64_t i = 0; i < kUnits; ++i) {
      ++arrived;
      while (arrived < 2 * (i + 1)) std::this_thread::yield();
      reader.served({0, i}, kSize, units[i], kSize / 2);
    }
  };
  std::thread other(serve);
  serve();
  other.join();
  uint64_t kept = 0;
  for (uint64_t i = 0; i < kUnits; ++i) kept += reader.table().find({0, i}).held ? 1 : 0;
  CHECK(kept == 0);
}
