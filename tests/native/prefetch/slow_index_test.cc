// native/prefetch: while the disk holds back a block of an index, READs of other records go on.

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <vector>

#include "io/kept_pages.h"
#include "open/open_packs.h"
#include "prefetch/prefetcher.h"
#include "prefetch_rig.h"
#include "stalling_file.h"
#include "volume/file_reads.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kNear = 5;
constexpr uint64_t kLate = StallingPack::kMiddle;

struct Slow {
  explicit Slow(StallingPack::Stalled what, size_t window = 512)
      : pack(what), options{.around = ReadAroundMode::kOff, .window_records = window} {}
  ~Slow() { pack.go(); }

  StallingPack pack;
  Counters counters;
  PackPolicy policy{.open_source = pack.open()};
  OpenedPacks packs = open_packs({pack.path}, policy, counters);
  FileReads reads{packs.shards, counters, size_t{64} << 20, true};
  PrefetchOptions options;
  Prefetcher prefetcher{*packs.opened.tree,
                        true,
                        reads.units(),
                        options,
                        true,
                        [](const Hint&, std::span<const std::byte>) { return false; }};
};

// Return whether the READ of a record is noted although the disk stalls.
bool is_noted(Slow& slow, uint64_t record) {
  const Extent near = slow.packs.shards.extent(record);
  auto reading =
      std::async(std::launch::async, [&] { slow.prefetcher.note_read(near, Found::kMissing); });
  const bool is_read = reading.wait_for(20s) == std::future_status::ready;
  if (!is_read) slow.pack.go();
  return is_read;
}

// Drops the index from memory (but its blocks stay known as sound), and makes the disk stall.
void forget_index(Slow& slow) {
  const std::vector<std::byte> page(KeptPages::kPageSize);
  for (uint64_t number = 0; number < 2 * KeptPages::kCapacity / page.size(); ++number) {
    KeptPages::of_process().keep({.range = UINT64_MAX, .page = number}, page);
  }
  slow.pack.stall();
}

// Return whether `waits` has to wait, while the READ of another record does not.
template <typename Waits> bool waits_alone(Slow& slow, const Waits& waits) {
  const Extent near = slow.packs.shards.extent(kNear);
  auto waiting = std::async(std::launch::async, waits);
  const bool is_waiting = waiting.wait_for(100ms) == std::future_status::timeout;
  auto reading =
      std::async(std::launch::async, [&] { slow.prefetcher.note_read(near, Found::kMissing); });
  const bool is_read = reading.wait_for(20s) == std::future_status::ready;
  slow.pack.go();
  return is_waiting && is_read;
}

}  // namespace

TEST_CASE("a READ that waits for a slow block of the index holds up no other") {
  Slow slow(StallingPack::Stalled::kFile);
  const Extent late = slow.packs.shards.extent(kLate);
  CHECK(waits_alone(slow, [&] { slow.prefetcher.note_read(late, Found::kMissing); }));
}

TEST_CASE("hints that wait for a slow block of a header hold up no READ") {
  Slow slow(StallingPack::Stalled::kOffset);
  const auto list = slow.prefetcher.open_list();
  const std::vector<Hint> hints{{.record = kLate}};
  CHECK(waits_alone(slow, [&] { (void)slow.prefetcher.add(list, hints); }));
}

TEST_CASE("a run that comes to a slow block of the index holds up no READ") {
  Slow slow(StallingPack::Stalled::kFile);
  const uint64_t late = slow.pack.first_late();
  for (const uint64_t record : {late - 3, late - 2, late - 1}) CHECK(is_noted(slow, record));
  REQUIRE(wait_until([&] { return slow.pack.has_waiting(); }));
  CHECK(is_noted(slow, kNear));
}

TEST_CASE("a batch of hints whose index blocks have left memory holds up no READ") {
  constexpr size_t kWindow = 64;
  Slow slow(StallingPack::Stalled::kOffset, kWindow);
  slow.pack.go();
  const auto list = slow.prefetcher.open_list();
  std::vector<Hint> hints;
  for (uint64_t record = 0; record < kWindow; ++record) hints.push_back({.record = record});
  hints.push_back({.record = kLate});  // is wanted when the window moves on
  CHECK(slow.prefetcher.add(list, hints) > 0);
  slow.prefetcher.finish(list);
  const Extent middle = slow.packs.shards.extent(kWindow / 2);
  REQUIRE(wait_until([&] { return slow.counters.prefetch_fetched >= kWindow / 2; }));
  forget_index(slow);
  slow.prefetcher.note_read(middle, Found::kPrefetched);
  REQUIRE(wait_until([&] { return slow.pack.has_waiting(); }));
  CHECK(is_noted(slow, kNear));
}

TEST_CASE("a hint that is given up is not looked up again") {
  Slow slow(StallingPack::Stalled::kOffset, 4);
  slow.pack.go();
  const auto list = slow.prefetcher.open_list();
  std::vector<Hint> hints{{.record = kLate + 1}};
  for (uint64_t record = 0; record < 20; ++record) hints.push_back({.record = record});
  CHECK(slow.prefetcher.add(list, hints) > 0);
  std::vector<Extent> others;
  for (uint64_t record = 0; record < 20; ++record) {
    others.push_back(slow.packs.shards.extent(record));
  }
  REQUIRE(wait_until([&] { return slow.counters.prefetch_fetched == 4; }));
  forget_index(slow);
  auto reading = std::async(std::launch::async, [&] {
    for (const Extent& extent : others) slow.prefetcher.note_read(extent, Found::kMissing);
  });
  CHECK(reading.wait_for(20s) == std::future_status::ready);
  CHECK(slow.counters.prefetch_wasted_bytes == 1);
  slow.pack.go();
}
