// native/open: comparing an index with the pickle when memory runs out.

#include "open/index_check.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include "index_file.h"
#include "pickles.h"
#include "record/ffrecord_shard.h"
#include "stats/counters.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

uint64_t allocations = 0;
uint64_t failing = 0;  // number of the allocation that fails; 0: none

}  // namespace

void* operator new(size_t size) {
  void* memory = ++allocations == failing ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

TEST_CASE("whichever allocation fails, the pack is not taken for damaged") {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("p.ffr", indexed_pack({"a"}, flat_sections({"a"}), one_file("a")).file);
  const FfrecordShard indexed(path, IndexUse::kIfSound);
  REQUIRE(indexed.index() != nullptr);
  const ShardSet plain = open_ffrecord_shards({path}, IndexUse::kNone);
  Counters counters;
  REQUIRE(find_index_fault(indexed, plain, counters).empty());
  uint64_t failures = 0;
  for (bool has_failed = true; has_failed; ++failures) {
    CAPTURE(failures);
    allocations = 0;
    failing = failures + 1;
    std::string fault;
    try {
      fault = find_index_fault(indexed, plain, counters);
      has_failed = allocations >= failing;
    } catch (const std::bad_alloc&) {
    }
    failing = 0;
    CHECK(fault == "");
  }
  CHECK(failures > 10);
}
