// native/io/file_time.h: times that 64 bits of nanoseconds cannot hold.

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

#include "io/file_time.h"

using ffrfs::nanoseconds;

namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();  // means "unknown" elsewhere
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kSecond = 1'000'000'000;

}  // namespace

TEST_CASE("times beyond the range of nanoseconds become the nearest in range") {
  CHECK(nanoseconds(0, 0) == 0);
  CHECK(nanoseconds(-1, 999'999'999) == -1);
  CHECK(nanoseconds(9'223'372'036, 854'775'807) == kMax);
  CHECK(nanoseconds(9'223'372'036, 854'775'808) == kMax);
  CHECK(nanoseconds(99'999'999'999, 5) == kMax);
  CHECK(nanoseconds(kMax, 999'999'999) == kMax);
  CHECK(nanoseconds(-9'223'372'036, 0) == -9'223'372'036 * kSecond);
  CHECK(nanoseconds(-10'000'000'000, 0) == kMin + 1);
  CHECK(nanoseconds(kMin, 0) == kMin + 1);
}
