// native/fuse/journal.h: what a process leaves behind for the next one.

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <vector>

#include "fuse/journal.h"
#include "io/file_descriptor.h"
#include "threads.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace ffrfs::fuse;

namespace {

// Return the noted requests. The journal also lists the numbers around the last one, as the
// process may have taken those requests, too; they are cut off here.
std::vector<uint64_t> unanswered(const Journal& journal) {
  std::vector<uint64_t> found;
  journal.unanswered([&](uint64_t unique) { found.push_back(unique); });
  const auto around = std::ranges::adjacent_find(
      found, [](uint64_t one, uint64_t next) { return next == one + 1; });
  found.erase(around, found.end());
  std::ranges::sort(found);
  return found;
}

InHeader request(uint64_t unique, uint64_t ino = 1) {
  return {.len = sizeof(InHeader),
          .opcode = static_cast<uint32_t>(Opcode::kRead),
          .unique = unique,
          .nodeid = ino,
          .uid = 0,
          .gid = 0,
          .pid = 0,
          .total_extlen = 0,
          .padding = 0};
}

}  // namespace

TEST_CASE("the next process finds INIT and the requests that have no answer") {
  FileDescriptor memory(memfd_create("journal_test", MFD_CLOEXEC));
  REQUIRE(ftruncate(memory.get(), CounterPage::kSize) == 0);
  const InitIn init{
      .major = 7, .minor = 42, .max_readahead = 1, .flags = 2, .flags2 = 3, .unused = {}};
  {
    CounterPage page(memory.get());
    Journal journal(page);
    CHECK(!journal.init());
    journal.keep_init(std::as_bytes(std::span(&init, 1)));
    Counter* const answered = journal.begin(request(2));
    REQUIRE(journal.begin(request(4, 77)) != nullptr);
    REQUIRE(journal.begin(request(6 | kResent)) != nullptr);
    Journal::end(answered);
  }
  CounterPage page(memory.get());
  Journal journal(page);
  const auto kept = journal.init();
  REQUIRE(kept);
  CHECK(std::ranges::equal(std::as_bytes(std::span(*kept)), std::as_bytes(std::span(&init, 1))));
  CHECK(unanswered(journal) == std::vector<uint64_t>{4, 6 | kResent});
  const uint64_t key = request_key(77, static_cast<uint32_t>(Opcode::kRead));
  CHECK(std::ranges::any_of(page.row("in_flight", 2 * Journal::kRequestCount),
                            [&](const Counter& word) { return word == key; }));
  CHECK(page.row("requests_resent") == 1);
  journal.clear();
  CHECK(unanswered(journal).empty());
}

TEST_CASE("numbers that a killed thread may have taken are found near the last number") {
  CounterPage page;
  Journal journal(page);
  constexpr uint64_t kLast = 1 << 20;
  Journal::end(journal.begin(request(kLast | kResent)));
  std::vector<uint64_t> found;
  journal.unanswered([&](uint64_t unique) { found.push_back(unique); });
  REQUIRE(found.size() == Journal::kBehind + Journal::kAhead);
  CHECK(found.front() == kLast - Journal::kBehind);
  CHECK(found.back() == kLast + Journal::kAhead - 1);
}

TEST_CASE("requests beyond the number of places are served without a place") {
  CounterPage page;
  Journal journal(page);
  std::vector<Counter*> places;
  for (uint64_t i = 0; i < Journal::kRequestCount; ++i) {
    places.push_back(journal.begin(request(2 * i + 2)));
  }
  CHECK(std::ranges::count(places, nullptr) == 0);
  CHECK(journal.begin(request(1)) == nullptr);
  Journal::end(nullptr);
  for (Counter* const place : places) Journal::end(place);
  CHECK(unanswered(journal).empty());
}

TEST_CASE("threads get places of their own") {
  constexpr uint32_t kThreads = 8;
  constexpr uint64_t kRounds = 2000;
  CounterPage page;
  Journal journal(page);
  in_threads(kThreads, [&journal](uint32_t thread) {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      const uint64_t unique = uint64_t{thread} << 32 | round;
      Counter* const place = journal.begin(request(unique));
      CHECK(place->load() == unique);
      if (round < kRounds) Journal::end(place);
    }
  });
  CHECK(unanswered(journal).size() == kThreads);
}
