// native/io: checksums, files, buffers, the read queue.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "aio_events.h"
#include "io/buffer.h"
#include "io/crc.h"
#include "io/error.h"
#include "io/local_file.h"
#include "io/process_local.h"
#include "io/read_queue.h"
#include "io/source.h"
#include "io/thread_pool.h"
#include "io/wait_check.h"
#include "page_cache.h"
#include "scratch.h"
#include "threads.h"

using namespace ffrfs;
using namespace ffrfs::test;

TEST_CASE("CRC-32 and CRC-32C give their published check values") {
  CHECK(crc32(view("123456789")) == 0xCBF43926U);
  CHECK(crc32c(view("123456789")) == 0xE3069283U);
  CHECK(crc32({}) == 0);
  CHECK(crc32c({}) == 0);
}

TEST_CASE("a checksum in pieces is the checksum of the whole") {
  const Bytes bytes = pattern(100'003, 1);
  for (const size_t cut : {0UL, 1UL, 4095UL, 4096UL, 65537UL, bytes.size()}) {
    CHECK(crc32(view(bytes).subspan(cut), crc32(view(bytes).first(cut))) == crc32(view(bytes)));
    CHECK(crc32c(view(bytes).subspan(cut), crc32c(view(bytes).first(cut))) == crc32c(view(bytes)));
  }
}

TEST_CASE("the error for a file that cannot be opened has the system's reason") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(LocalFile(folder / "none"), doctest::Contains("No such file"), StorageError);
  CHECK_THROWS_WITH_AS(LocalFile(folder / ""), doctest::Contains("Is a directory"), StorageError);
}

TEST_CASE("cached and uncached reads give the same bytes") {
  const TemporaryFolder folder;
  const Bytes content = pattern(300'001, 2);
  const LocalFile file(folder.write("f", content));
  Bytes target(150'000, '\0');
  const auto span = std::as_writable_bytes(std::span(target));
  REQUIRE(file.read_cached(12'345, span));  // it was just written, so it is cached
  CHECK(target == content.substr(12'345, target.size()));

  drop_cached_pages(file.path());
  target.assign(target.size(), '\0');
  file.read_fully(12'345, span);
  CHECK(target == content.substr(12'345, target.size()));

  CHECK_THROWS_WITH_AS(file.read_fully(250'000, span),
                       doctest::Contains("nothing at offset 300001: shorter"), StorageError);
}

TEST_CASE("read_cached() neither waits for uncached bytes nor fetches them") {
  const TemporaryFolder folder;
  const LocalFile file(folder.write("f", pattern(1 << 20, 3)));
  drop_cached_pages(file.path());
  if (is_cached(file.path())) return;  // a file system in memory (tmpfs) always holds its pages
  Bytes target(4096, '\0');
  CHECK_FALSE(file.read_cached(500'000, std::as_writable_bytes(std::span(target))));
  // Nor has the kernel begun to fetch the missing page, as it may do with RWF_NOWAIT alone.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(is_cached(file.path()));
  CHECK(file.read_cached(500'000, {}));
}

TEST_CASE("a pool hands out aligned buffers again, and keeps no more than its limit") {
  BufferPool pool(1 << 20);
  const std::byte* first = nullptr;
  {
    const Buffer buffer = pool.acquire(100'000);
    first = buffer.data();
    CHECK(reinterpret_cast<uintptr_t>(first) % Buffer::kAlignment == 0);
    CHECK(buffer.capacity() >= 100'000);
  }
  CHECK(pool.acquire(101'000).data() == first);  // a buffer of the same size class
  {
    const Buffer large = pool.acquire(2 << 20);
  }
  Buffer outlives;
  {
    BufferPool short_lived(1 << 20);
    outlives = short_lived.acquire(10);
  }
  outlives.first(10)[9] = std::byte{1};
}

namespace {

// Reads random ranges through the queue and compares the bytes.
void check_random_reads(ReadPort& port, const Source& file, const Bytes& content) {
  std::mt19937 random(7);
  size_t finished = 0;
  constexpr size_t kReads = 300;  // more than the AIO context takes at a time
  for (size_t i = 0; i < kReads; ++i) {
    const size_t offset = random() % content.size();
    const size_t size = 1 + random() % std::min<size_t>(content.size() - offset, 200'000);
    port.submit(file, offset, size, [&content, &finished, offset, size](RawBytes raw) {
      REQUIRE_FALSE(raw.error);
      CHECK(text(raw.bytes) == content.substr(offset, size));
      ++finished;
    });
  }
  while (finished < kReads) {
    port.wait(10'000);
    port.poll();
  }
}

}  // namespace

TEST_CASE("the queue reads the same bytes through AIO, and through threads without AIO") {
  const TemporaryFolder folder;
  const Bytes content = pattern(3'000'001, 4);
  const LocalFile file(folder.write("f", content));
  for (const auto aio :
       {ReadPort::Aio::kNeverWaits, ReadPort::Aio::kMayWait, ReadPort::Aio::kNone}) {
    CAPTURE(static_cast<int>(aio));
    drop_cached_pages(file.path());
    BufferPool buffers(8 << 20);
    ReadQueue queue(buffers);
    ReadPort port(queue, aio);
    check_random_reads(port, file, content);
  }
}

TEST_CASE("reads beyond the end of a shrunken file fail and others do not") {
  const TemporaryFolder folder;
  const Bytes content = pattern(1 << 20, 5);
  const LocalFile file(folder.write("f", content));
  REQUIRE(truncate(file.path().c_str(), 500'000) == 0);
  BufferPool buffers(0);
  ReadQueue queue(buffers);
  ReadPort port(queue);
  int good = 0;
  int bad = 0;
  const auto count = [&](RawBytes raw) { ++(raw.error ? bad : good); };
  port.submit(file, 0, 100'000, count);
  port.submit(file, 450'000, 100'000, count);
  port.submit(file, 900'000, 100'000, count);
  while (good + bad < 3) {
    port.wait(10'000);
    port.poll();
  }
  CHECK(good == 1);
  CHECK(bad == 2);
}

TEST_CASE("a queue may be destroyed while its reads are in flight") {
  const TemporaryFolder folder;
  const LocalFile file(folder.write("f", pattern(4 << 20, 6)));
  drop_cached_pages(file.path());
  BufferPool buffers(0);
  for (int round = 0; round < 20; ++round) {
    ReadQueue queue(buffers);
    ReadPort port(queue, static_cast<ReadPort::Aio>(round % 3));
    for (int i = 0; i < 100; ++i) {
      port.submit(file, static_cast<uint64_t>(i) * 40'000, 39'000, [](RawBytes) {});
    }
  }
}

TEST_CASE("when the system's AIO events are used up, threads read") {
  const TemporaryFolder folder;
  const Bytes content = pattern(500'000, 8);
  const LocalFile file(folder.write("f", content));
  drop_cached_pages(file.path());
  BufferPool buffers(1 << 20);
  ReadQueue queue(buffers);
  AllAioEvents taken;
  bool uses_aio = true;
  while (uses_aio) {  // again if another process gave some back before the port was made
    taken.take();
    ReadPort port(queue);
    check_random_reads(port, file, content);
    uses_aio = port.uses_aio();
  }
}

TEST_CASE("posted callbacks run in poll(), from any thread") {
  BufferPool buffers(0);
  ReadQueue queue(buffers);
  ReadPort port(queue);
  std::atomic<int> ran{0};
  in_threads(4, [&] {
    for (int k = 0; k < 100; ++k) port.post([&] { ++ran; });
  });
  CHECK(ran == 0);
  port.poll();
  CHECK(ran == 400);
}

TEST_CASE("background tasks leave threads free for urgent tasks") {
  std::atomic<int> blocked{0};
  std::atomic<bool> may_go{false};
  ThreadPool pool(4, 3);  // declared last, so that its threads end before the variables they use
  for (int i = 0; i < 20; ++i) {
    pool.submit([&] {
      ++blocked;
      while (!may_go) std::this_thread::yield();
    }, ThreadPool::Urgency::kBackground);
  }
  while (blocked < 3) std::this_thread::yield();
  for (int i = 0; i < 5; ++i) {
    std::atomic<bool> ran{false};
    pool.submit([&] { ran = true; });
    while (!ran) std::this_thread::yield();
  }
  CHECK(blocked == 3);
  may_go = true;
  while (blocked < 20) std::this_thread::yield();
}

TEST_CASE("all ports together have no more threads than the queue allows") {
  const TemporaryFolder folder;
  const Bytes content = pattern(2'000'000, 9);
  const LocalFile file(folder.write("f", content));
  BufferPool buffers(0);
  ReadQueue queue(buffers);
  const auto count_threads = [] {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
  };
  const size_t before = count_threads();
  std::vector<std::unique_ptr<ReadPort>> ports;
  for (int i = 0; i < 8; ++i) {
    ports.push_back(std::make_unique<ReadPort>(
        queue, ReadPort::Aio::kNone,
        i < 4 ? ReadPort::Urgency::kBackground : ReadPort::Urgency::kSomeoneWaits));
  }
  std::atomic<int> finished{0};
  for (int i = 0; i < 800; ++i) {
    drop_cached_pages(file.path());
    ports[static_cast<size_t>(i % 8)]->submit(file, static_cast<uint64_t>(i) * 2000, 1000,
                                              [&](RawBytes raw) {
      CHECK_FALSE(raw.error);
      ++finished;
    });
    CHECK(count_threads() <= before + ReadQueue::kThreads);
  }
  while (finished < 800) {
    for (auto& port : ports) port->poll();
  }
}

TEST_CASE("a thread pool runs every task") {
  std::atomic<int> ran{0};
  {
    ThreadPool pool(3);
    for (int i = 0; i < 1000; ++i) pool.submit([&] { ++ran; });
    while (ran < 1000) std::this_thread::yield();
  }
  CHECK(ran == 1000);
}

TEST_CASE("a thread pool that ends drops the tasks that have not started") {
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> dropped = held;
  std::atomic<bool> has_started = false;
  std::atomic<bool> ran = false;
  {
    ThreadPool pool(1);
    pool.submit([&] {
      has_started = true;
      while (!dropped.expired()) std::this_thread::yield();
    });
    while (!has_started) std::this_thread::yield();
    pool.submit([&ran, held = std::move(held)] { ran = true; });
  }
  CHECK_FALSE(ran);
}

TEST_CASE("a child of fork() gets its own process-local objects") {
  ProcessLocal<ThreadPool> local([] { return std::make_unique<ThreadPool>(1); });
  ThreadPool* const mine = &local.get();
  CHECK(mine == &local.get());
  const pid_t child = fork_among_threads();
  if (child == 0) {
    std::atomic<bool> ran{false};
    ThreadPool* const its = &local.get();
    its->submit([&] { ran = true; });
    while (!ran) std::this_thread::yield();
    _exit(its != mine ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("Ctrl-C ends a wait for bytes that are fetched again") {
  class Silent final : public Source {
   public:
    Silent() : Source("x", {.size = 100}) {}
    [[nodiscard]] bool is_cached(uint64_t, size_t) const override { return false; }
    [[nodiscard]] bool read_now(uint64_t, Parts) const override { return false; }
    void read_fully(uint64_t, std::span<std::byte>) const override {}
    [[nodiscard]] bool can_refetch() const override { return true; }
    void refetch(uint64_t, size_t, Prepared never) const override { asked = std::move(never); }

    mutable Prepared asked;
  };
  const Silent file;
  const std::atomic<bool> is_ended{true};
  const WaitsUntil guard(is_ended);
  CHECK_THROWS_AS((void)refetch_and_wait(file, 0, 10), Interrupted);
}
