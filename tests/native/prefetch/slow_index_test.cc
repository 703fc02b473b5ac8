// native/prefetch: while the disk does not give a block of an index, READs of other records go on.

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <vector>

#include "open/open_packs.h"
#include "prefetch/prefetcher.h"
#include "stalling_file.h"
#include "volume/file_reads.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kNear = 5;
constexpr uint64_t kLate = StallingPack::kMiddle;

struct Slow {
  explicit Slow(StallingPack::Stalled what) : pack(what) {}
  ~Slow() { pack.go(); }

  StallingPack pack;
  Counters counters;
  PackPolicy policy{.open_source = pack.open()};
  OpenedPacks packs = open_packs({pack.path}, policy, counters);
  FileReads reads{packs.shards, counters, size_t{64} << 20, true};
  PrefetchOptions options{.around = ReadAroundMode::kOff};
  Prefetcher prefetcher{*packs.opened.tree,
                        true,
                        reads.units(),
                        options,
                        true,
                        [](const Hint&, std::span<const std::byte>) { return false; }};
};

// Returns whether `waits` does, and a READ of another record meanwhile does not.
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

TEST_CASE("a READ whose file is in a late block of the index holds up no other") {
  Slow slow(StallingPack::Stalled::kFile);
  const Extent late = slow.packs.shards.extent(kLate);
  CHECK(waits_alone(slow, [&] { slow.prefetcher.note_read(late, Found::kMissing); }));
}

TEST_CASE("hints of records whose places are in a late block of a header hold up no READ") {
  Slow slow(StallingPack::Stalled::kOffset);
  const auto list = slow.prefetcher.open_list();
  const std::vector<Hint> hints{{.record = kLate}};
  CHECK(waits_alone(slow, [&] { (void)slow.prefetcher.add(list, hints); }));
}
