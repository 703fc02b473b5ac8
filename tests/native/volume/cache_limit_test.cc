// native/volume: a limit that is lowered and raised while readers read. The memory in use follows
// it at once, every reader gets the right bytes, and all that could be read still can.

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "aio_events.h"
#include "prefetch_rig.h"
#include "threads.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

// Does the same as Volume::limit_cache().
void limit(Rig& rig, size_t limit_bytes) {
  rig.reads.limit_cache(limit_bytes);
  rig.prefetcher->follow_limit();
  release_free_memory();
}

}  // namespace

TEST_CASE("free buffers beyond a new limit are dropped, and those below it are used again") {
  BufferPool pool(40'960);
  const std::byte* memory = nullptr;
  {
    std::vector<Buffer> all;
    for (int i = 0; i < 10; ++i) all.push_back(pool.acquire(4096));
  }
  pool.limit_free(4096);
  {
    const Buffer kept = pool.acquire(4096);
    memory = kept.data();
  }
  CHECK(pool.acquire(4096).data() == memory);
  pool.limit_free(0);
  {
    const Buffer used = pool.acquire(8192);
  }
  pool.limit_free(8192);
  {
    const Buffer used = pool.acquire(8192);
  }
  memory = pool.acquire(8192).data();
  CHECK(pool.acquire(8192).data() == memory);
}

TEST_CASE("release() unmaps the free buffers of a pool, and the pool can still be used") {
  constexpr size_t kSize = kMib;  // so large that it is mapped, not taken from malloc's heap
  BufferPool pool(2 * kSize);
  std::byte* memory = pool.acquire(kSize).data();
  const auto is_mapped = [&] { return msync(memory, kSize, MS_ASYNC) == 0; };
  CHECK(is_mapped());
  pool.release();
  CHECK_FALSE(is_mapped());
  memory = pool.acquire(kSize).data();
  CHECK(is_mapped());
}

TEST_CASE("records held for hints shrink with the limit, and can still be read") {
  Rig rig(patterns(64, 60'000));
  const auto list = rig.prefetcher->open_list();
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < 64; ++i) order.push_back(i);
  (void)rig.prefetcher->add(list, rig.hints(order));
  REQUIRE(rig.settles());
  CHECK(rig.counters.bytes_prefetched > 3 * kMib);
  limit(rig, 8 * kMib);
  CHECK(rig.counters.bytes_prefetched <= kMib);
  CHECK(rig.counters.bytes_prefetched > kMib / 2);
  CHECK(rig.counters.prefetch_wasted_bytes > 2 * kMib);
  for (const uint64_t record : order) (void)rig.read(record);
  CHECK(rig.wrong == 0);
  REQUIRE(rig.settles());
  CHECK(rig.counters.bytes_prefetched == 0);
  CHECK(rig.counters.bytes_in_flight == 0);
}

TEST_CASE("reads that wait for room go on when there is more, and one always has room") {
  Rig rig(patterns(8, 3'000'000), {.cache_bytes = 64 * kMib});
  limit(rig, 0);
  std::atomic<int> arrived{0};
  const auto ask = [&](uint64_t record) {
    const auto now = rig.reads.read(rig.shards.extent(record), 0, 10,
                                    [&](const Slice& slice, const std::exception_ptr& error) {
      if (!error && slice.bytes.size() == 10) ++arrived;
    });
    CHECK_FALSE(now);
  };
  for (uint64_t record = 0; record < 8; ++record) ask(record);
  CHECK(rig.counters.bytes_in_flight < 4 * kMib);  // only one of them
  limit(rig, 64 * kMib);
  CHECK(rig.counters.bytes_in_flight > 20 * kMib);
  CHECK(wait_until([&] {
    rig.reads.poll();
    return arrived == 8;
  }));
  CHECK(rig.counters.bytes_in_flight == 0);
}

TEST_CASE("the largest record that can be read does not depend on the present limit") {
  Rig rig(patterns(2, 1000), {.cache_bytes = 64 * kMib});
  const uint64_t before = rig.reads.record_limit_bytes();
  CHECK(before == 32 * kMib);
  for (const size_t now : {size_t{0}, 8 * kMib, 1000 * kMib}) {
    limit(rig, now);
    CHECK(rig.reads.record_limit_bytes() == before);
    CHECK(rig.reads.fetcher().budget().first_limit(Account::kKept) == 16 * kMib);
  }
}

TEST_CASE("many lists share the room for hints, and the last list still has some") {
  Rig rig(patterns(4, 100), {.options = {.window_records = 100}});
  const std::vector<Hint> hints(9000, rig.hint(1));
  std::vector<Prefetcher::ListId> lists;
  size_t taken = 0;
  for (size_t i = 0; i < Prefetcher::kListsMax; ++i) {
    lists.push_back(rig.prefetcher->open_list());
    const size_t room = rig.prefetcher->room(lists.back()).value();
    CHECK(room == (i < 8 ? 8192 : 300));
    CHECK(rig.prefetcher->add(lists.back(), hints) == 0);
    taken += room;
  }
  CHECK(taken == Prefetcher::kHintsMax + 56 * 300);
  rig.prefetcher->drop(lists.front());
  CHECK(rig.prefetcher->room(lists.back()) == 0);  // the others still have too much
  for (const auto list : lists) rig.prefetcher->drop(list);
  CHECK(rig.prefetcher->room(rig.prefetcher->open_list()) == 8192);
}

TEST_CASE("readers get the right bytes while the limit goes up and down, and hints come") {
  std::vector<Bytes> records = patterns(200, 30'000);
  for (size_t i = 0; i < 6; ++i) records[i * 30] = pattern(4'500'000 + i, static_cast<uint32_t>(i));
  Rig rig(std::move(records), {.cache_bytes = 48 * kMib});
  std::atomic<bool> is_over{false};
  std::atomic<int> failures{0};
  {
    std::jthread limiter([&] {
      std::minstd_rand random(7);
      while (!is_over) {
        limit(rig, random() % 3 == 0 ? 0 : random() % (48 * kMib));
        std::this_thread::sleep_for(2ms);
      }
    });
    std::jthread hinter([&] {
      std::minstd_rand random(8);
      while (!is_over) {
        const auto list = rig.prefetcher->open_list();
        std::vector<uint64_t> order;
        for (int i = 0; i < 60; ++i) order.push_back(random() % 200);
        (void)rig.prefetcher->add(list, rig.hints(order));
        std::this_thread::sleep_for(10ms);
        rig.prefetcher->drop(list);
      }
    });
    in_threads(4, [&](uint32_t i) {
      std::mt19937 random(i);
      for (const auto end = Clock::now() + 1500ms; Clock::now() < end;) {
        if (random() % 20 == 0) drop_cached_pages(rig.path);
        try {
          (void)rig.read(random() % 200, 1 + random() % 300'000);
        } catch (...) {
          ++failures;
        }
      }
    });
    is_over = true;
  }
  CHECK(rig.wrong == 0);
  CHECK(failures == 0);
  limit(rig, 0);
  REQUIRE(rig.settles());
  CHECK(rig.counters.bytes_kept == 0);
  CHECK(rig.counters.bytes_in_flight == 0);
  CHECK(wait_until([&] { return rig.counters.bytes_prefetched == 0; }));
}

// Demand reads, batches ahead of need and passes over large records all read in threads here.
TEST_CASE("without AIO reading takes at most 36 threads in all pools") {
  std::vector<Bytes> records = patterns(400, 10'000);
  for (size_t i = 0; i < 8; ++i) records[i * 50] = pattern(4'500'000, static_cast<uint32_t>(i));
  const AllAioEvents taken;
  Rig rig(std::move(records), {.cache_bytes = 256 * kMib});
  std::atomic<bool> is_over{false};
  std::atomic<bool> may_begin{false};
  std::atomic<size_t> most{0};
  std::vector<std::jthread> readers;
  for (uint32_t i = 0; i < 4; ++i) {
    readers.emplace_back([&, i] {
      while (!may_begin) std::this_thread::yield();
      std::mt19937 random(i);
      for (const auto end = Clock::now() + 1s; Clock::now() < end;) {
        if (random() % 4 == 0) drop_cached_pages(rig.path);
        (void)rig.read(random() % 400, 1 + random() % 300'000);
      }
    });
  }
  readers.emplace_back([&] {
    while (!is_over) {
      const auto list = rig.prefetcher->open_list();
      std::vector<uint64_t> order;
      for (uint64_t i = 0; i < 400; ++i) order.push_back((i * 7) % 400);
      (void)rig.prefetcher->add(list, rig.hints(order));
      std::this_thread::sleep_for(10ms);
      rig.prefetcher->drop(list);
    }
  });
  const size_t others = thread_count();
  may_begin = true;
  for (const auto end = Clock::now() + 1s; Clock::now() < end;) {
    most = std::max<size_t>(most, thread_count());
  }
  is_over = true;
  readers.clear();
  CHECK(rig.wrong == 0);
  CHECK(most > others);
  CHECK(most <= others + 36);
}
