// native/volume: blocks that wait for their readers: there once, gone once taken, and the
// count of their memory never off.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "volume/prefetched_blocks.h"

using namespace ffrfs;
using namespace std::chrono_literals;

namespace {

using Clock = PrefetchedBlocks::Clock;

BlockPtr block_of(BufferPool& buffers, size_t size) {
  auto block = std::make_shared<Block>();
  block->buffer = buffers.acquire(size);
  block->bytes = block->buffer.first(size);
  return block;
}

}  // namespace

TEST_CASE("what is put is there until it is taken, and only once") {
  BufferPool buffers(0);
  Counter size_bytes{77};  // of a process before us
  PrefetchedBlocks blocks(size_bytes);
  CHECK(size_bytes == 0);
  CHECK(blocks.empty());
  const BlockPtr first = block_of(buffers, 5000);
  const BlockPtr second = block_of(buffers, 9000);
  blocks.put({{0, 1, 0}, first, 7, Clock::now()});
  blocks.put({{0, 1, 0}, second, 8, Clock::now()});
  CHECK(size_bytes == 8192);
  CHECK(blocks.size_bytes() == 8192);
  CHECK(blocks.contains({0, 1, 0}));
  CHECK_FALSE(blocks.contains({0, 1, 1}));
  CHECK_FALSE(blocks.contains({1, 1, 0}));
  CHECK(blocks.drop(8).empty());
  CHECK(blocks.take({0, 1, 0}) == first);
  CHECK(blocks.take({0, 1, 0}) == nullptr);
  CHECK(blocks.empty());
  CHECK(size_bytes == 0);
}

TEST_CASE("what is too old goes, or all of an owner; what went is told") {
  BufferPool buffers(0);
  Counter size_bytes{0};
  PrefetchedBlocks blocks(size_bytes);
  const auto begin = Clock::now();
  for (uint64_t record = 0; record < 10; ++record) {
    blocks.put({{0, record, 0}, block_of(buffers, 100), record % 2,
                begin + std::chrono::seconds(record)});
  }
  CHECK(blocks.expire(begin).empty());
  const auto expired = blocks.expire(begin + 3s);
  REQUIRE(expired.size() == 3);
  for (uint64_t record = 0; record < 3; ++record) CHECK(expired[record].key.record == record);
  const auto dropped = blocks.drop(1);
  REQUIRE(dropped.size() == 4);
  for (const auto& entry : dropped) CHECK(entry.key.record % 2 == 1);
  CHECK(blocks.drop(1).empty());
  CHECK(size_bytes == 3 * 4096);
  CHECK(blocks.expire(Clock::now() + 1h).size() == 3);
  CHECK(size_bytes == 0);
}

TEST_CASE("as a plain map, whatever is done") {
  using Model = std::map<uint64_t, std::pair<uint64_t, BlockPtr>>;  // record → owner, block
  for (uint32_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    std::minstd_rand random(seed + 1);
    BufferPool buffers(1 << 20);
    Counter size_bytes{0};
    PrefetchedBlocks blocks(size_bytes);
    Model model;
    for (int i = 0; i < 2000; ++i) {
      const uint64_t record = random() % 30;
      const BlockKey key{0, record, 0};
      const auto known = model.find(record);
      switch (random() % 8) {
        case 0:
        case 1:
        case 2: {
          const uint64_t owner = random() % 4;
          const BlockPtr block = block_of(buffers, 1 + random() % 20'000);
          blocks.put({key, block, owner, Clock::now()});
          model.try_emplace(record, owner, block);
          break;
        }
        case 3:
        case 4:
          CHECK(blocks.take(key) == (known == model.end() ? nullptr : known->second.second));
          model.erase(record);
          break;
        case 5:
          CHECK(blocks.drop(record % 4).size() == std::erase_if(model, [&](const auto& entry) {
            return entry.second.first == record % 4;
          }));
          break;
        default:
          CHECK(blocks.contains(key) == (known != model.end()));
      }
      uint64_t expected = 0;
      for (const auto& [place, entry] : model) expected += entry.second->buffer.capacity();
      REQUIRE(size_bytes == expected);
      REQUIRE(blocks.empty() == model.empty());
    }
  }
}

TEST_CASE("many threads: each block is taken by one of them, or dropped") {
  BufferPool buffers(1 << 20);
  Counter size_bytes{0};
  PrefetchedBlocks blocks(size_bytes);
  constexpr uint64_t kCount = 4000;
  std::vector<std::atomic<int>> seen(kCount);
  std::atomic<uint64_t> put_count{0};
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] {
      for (uint64_t record = 0; record < kCount; ++record) {
        blocks.put({{0, record, 0}, block_of(buffers, 100), record % 3, Clock::now()});
        put_count = record + 1;
      }
    });
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        for (uint64_t record = 0; record < kCount;) {
          if (record >= put_count) {
            std::this_thread::yield();
          } else if (blocks.take({0, record++, 0})) {
            ++seen[record - 1];
          }
        }
      });
    }
    threads.emplace_back([&] {
      while (put_count < kCount) {
        for (const auto& entry : blocks.drop(1)) ++seen[entry.key.record];
        for (const auto& entry : blocks.expire(Clock::now() - 100us)) ++seen[entry.key.record];
        std::this_thread::sleep_for(50us);
      }
    });
  }
  for (const auto& count : seen) CHECK(count == 1);
  CHECK(size_bytes == 0);
  CHECK(blocks.empty());
}
