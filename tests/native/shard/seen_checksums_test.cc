// native/shard: if several threads see a record first, one of them decides which checksum it has.

#include <doctest/doctest.h>

#include <vector>

#include "shard/seen_checksums.h"
#include "threads.h"

using namespace ffrfs;
using namespace ffrfs::test;

TEST_CASE("of many that see a record first one decides its checksum, and all agree") {
  constexpr uint64_t kRecords = 2000;
  SeenChecksums seen(kRecords);
  std::vector<std::vector<char>> is_first(4, std::vector<char>(kRecords));
  in_threads(4, [&](uint32_t number) {
    for (uint64_t record = 0; record < kRecords; ++record) {
      is_first[number][record] = seen.is_first(record, 100 + number) ? 1 : 0;
    }
  });
  for (uint64_t record = 0; record < kRecords; ++record) {
    CAPTURE(record);
    int count = 0;
    for (uint32_t number = 0; number < 4; ++number) {
      count += is_first[number][record];
      CHECK(seen.is_first(record, 100 + number) == (is_first[number][record] != 0));
    }
    CHECK(count == 1);
  }
}

TEST_CASE("a checksum of zero counts like any other") {
  SeenChecksums seen(1);
  CHECK(seen.is_first(0, 0));
  CHECK_FALSE(seen.is_first(0, 7));
  CHECK(seen.is_first(0, 0));
}
