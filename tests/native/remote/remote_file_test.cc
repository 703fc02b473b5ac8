// native/remote/remote_file.h, object_link.h: cached bytes are read, missing ones are requested;
// fetchers that end, are late, or send wrong messages.

#include <doctest/doctest.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "io/buffer.h"
#include "io/error.h"
#include "io/read_queue.h"
#include "page_cache.h"
#include "prefetch_rig.h"
#include "remote/object_link.h"
#include "remote/remote_error.h"
#include "remote/remote_opener.h"
#include "test_fetcher.h"
#include "threads.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::chrono_literals;
using remote::Ask;
using remote::Told;

namespace {

const std::string kUrl = "s3://bucket/a.ffr";

struct Link {
  explicit Link(size_t size = 40'000, std::chrono::milliseconds timeout = 10s,
                const std::string& folder = "")
      : object(std::make_shared<TestObject>(pattern(size, 1), folder)) {
    fetcher.add(kUrl, object);
    opener = std::make_shared<remote::RemoteOpener>(fetcher.start(), timeout);
  }
  // Opens a file, and waits until both of its ends are near.
  [[nodiscard]] std::unique_ptr<const Source> open(const std::string& url = kUrl) const {
    auto file = opener->open(url);
    CHECK(wait_until([&] { return file->is_near(0, 1) && file->is_near(file->size() - 1, 1); }));
    return file;
  }

  TestFetcher fetcher;
  std::shared_ptr<TestObject> object;
  std::shared_ptr<remote::RemoteOpener> opener;
};

Bytes read(const Source& file, uint64_t offset, size_t size) {
  Bytes bytes(size, '?');
  file.read_fully(offset, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

bool read_now(const Source& file, uint64_t offset, Bytes& bytes) {
  const std::span<std::byte> part = std::as_writable_bytes(std::span(bytes));
  return file.read_now(offset, {&part, 1});
}

// Files in memory (tmpfs) cannot leave the page cache.
bool has_disk(int fd) {
  struct statfs found{};
  return fstatfs(fd, &found) == 0 && found.f_type != TMPFS_MAGIC;
}

template <typename Error = StorageError, typename Call> std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("missing blocks are requested, and are there afterwards") {
  TemporaryFolder folder;
  for (const std::string& where : {std::string(), folder / ""}) {
    Link rig(40'000, 10s, where);
    const auto file = rig.open();
    CHECK(file->size() == 40'000);
    CHECK(file->mtime_ns() == 7);
    CHECK(file->path() == kUrl);
    CHECK(read(*file, 0, 40'000) == rig.object->content());
    CHECK(read(*file, 4000, 5000) == rig.object->content().substr(4000, 5000));
    CHECK(file->is_near(0, 40'000));
    Bytes now(9000, '?');
    CHECK(read_now(*file, 3000, now));
    CHECK(now == rig.object->content().substr(3000, 9000));
    CHECK_FALSE(error_of([&] { (void)read(*file, 39'999, 2); }).empty());
  }
}

TEST_CASE("neither is_cached() nor prepare() waits") {
  Link rig;
  const auto file = rig.open();
  rig.fetcher.hold();
  for (uint64_t block = 0; block < 10; ++block) rig.object->evict(block);
  CHECK_FALSE(file->is_near(8192, 100));
  CHECK_FALSE(file->is_cached(8192, 100));
  Bytes now(100, '?');
  CHECK_FALSE(read_now(*file, 8192, now));
  std::promise<bool> prepared;
  file->prepare(8192, 5000, Source::Urgency::kSomeoneWaits,
                [&](const std::exception_ptr& error) { prepared.set_value(!error); });
  auto coming = prepared.get_future();
  CHECK(coming.wait_for(50ms) == std::future_status::timeout);
  rig.fetcher.release();
  CHECK(coming.get());
  CHECK(read_now(*file, 8192, now));
  CHECK(now == rig.object->content().substr(8192, 100));
}

TEST_CASE("a block that is evicted while it is read is read again") {
  Link rig;
  const auto file = rig.open();
  CHECK(read(*file, 0, 40'000) == rig.object->content());
  std::atomic<bool> over{false};
  std::thread evictor([&] {
    while (!over) {
      rig.object->evict(3);
      std::this_thread::sleep_for(100us);
    }
  });
  for (int i = 0; i < 300; ++i) {
    Bytes seen;
    try {
      seen = read(*file, 12'000, 5000);
    } catch (const remote::RemoteError& error) {  // the evictor won at each try
      CHECK(std::string(error.kind()) == "CacheError");
      continue;
    }
    CHECK(seen == rig.object->content().substr(12'000, 5000));
  }
  over = true;
  evictor.join();
}

TEST_CASE("an object larger than its cache can be read") {
  for (const size_t room : {size_t{12}, size_t{2}, size_t{0}}) {
    Link rig(100 * kTestBlock);
    std::deque<uint64_t> kept;  // the oldest first
    rig.fetcher.answer_by([&](TestFetcher& fetcher, const Asked& asked) {
      if (asked.kind != Ask::kWant && asked.kind != Ask::kSoon) return false;
      for (uint64_t block = asked.first; block < asked.first + asked.count; ++block) {
        std::erase(kept, block);
        rig.object->fill(block, 1);
        kept.push_back(block);
        if (kept.size() <= room) continue;
        rig.object->evict(kept.front());
        kept.pop_front();
      }
      fetcher.send(Told::kReady, asked.object, asked.id);
      return true;
    });
    const auto file = rig.opener->open(kUrl);
    const auto read_all = [&] { return read(*file, 0, 100 * kTestBlock); };
    if (room > 0) {
      for (int i = 0; i < 3; ++i) CHECK(read_all() == rig.object->content());
    } else {
      CHECK(error_of([&] { (void)read_all(); }).find("loses blocks faster") != Bytes::npos);
    }
  }
}

TEST_CASE("readers of a fetcher that dies wait for the next fetcher") {
  Link rig;
  const auto file = rig.open();
  rig.fetcher.hold();
  for (uint64_t block = 0; block < 10; ++block) rig.object->evict(block);
  auto reading = std::async(std::launch::async, [&] { return read(*file, 20'000, 10'000); });
  REQUIRE(wait_until([&] { return rig.fetcher.count(Ask::kWant) > 0; }));
  rig.fetcher.kill();
  CHECK(reading.wait_for(50ms) == std::future_status::timeout);
  rig.fetcher.release();
  rig.opener->replace(rig.fetcher.start());
  CHECK(reading.get() == rig.object->content().substr(20'000, 10'000));
  const auto asked = rig.fetcher.asked();
  const auto last_open = std::ranges::find_if(
      asked.rbegin(), asked.rend(), [](const Asked& one) { return one.kind == Ask::kOpen; });
  CHECK(last_open->pin == "v1");
}

TEST_CASE("an object that has changed when a fetcher restarts gives errors for ever") {
  Link rig;
  const auto file = rig.open();
  rig.object->evict(5);
  rig.fetcher.kill();
  rig.fetcher.answer_by([&](TestFetcher& fetcher, const Asked& asked) {
    if (asked.kind == Ask::kOpen) fetcher.send_opened(asked, *rig.object, "v2");
    return asked.kind == Ask::kOpen;
  });
  rig.opener->replace(rig.fetcher.start());
  for (int i = 0; i < 2; ++i) {
    const std::string error = error_of([&] { (void)read(*file, 5 * kTestBlock, 10); });
    CHECK(error == kUrl + ": changed at its origin; open or mount it anew");
  }
}

TEST_CASE("a reader that gets no answer fails in time, and later reads try again") {
  Link rig(40'000, 1s);
  const auto file = rig.open();
  rig.fetcher.hold();
  rig.object->evict(5);
  const auto begin = std::chrono::steady_clock::now();
  const auto read_it = [&] { (void)read(*file, 5 * kTestBlock, 10); };
  CHECK(error_of(read_it).starts_with(kUrl + ": no answer for 1 s: "));
  const auto first = std::chrono::steady_clock::now() - begin;
  CHECK(first >= 1s);
  // The kernel repeats a READ that has failed; the second one need not wait as long.
  CHECK_FALSE(error_of(read_it).empty());
  CHECK(std::chrono::steady_clock::now() - begin < first + 950ms);
  CHECK(wait_until([&] { return rig.fetcher.count(Ask::kCancel) == 1; }));
  rig.fetcher.release();
  std::this_thread::sleep_for(1100ms);
  CHECK(error_of(read_it).empty());
}

TEST_CASE("an error from the fetcher keeps its class, and shows no secret of the URL") {
  Link rig;
  const std::string url = "https://me:secret@host/a.ffr?signature=secret";
  rig.fetcher.answer_by([&](TestFetcher& fetcher, const Asked& asked) {
    if (asked.kind != Ask::kOpen) return false;
    fetcher.send_failed(asked, "RemoteDeniedError", "no\ncredentials");
    return true;
  });
  try {
    (void)rig.open(url);
    CHECK(false);
  } catch (const remote::RemoteError& error) {
    CHECK(std::string(error.what()) == "https://host/a.ffr: no credentials");
    CHECK(std::string(error.kind()) == "RemoteDeniedError");
    CHECK(error.code() == EACCES);
  }
}

TEST_CASE("objects that cannot be opened use up no numbers") {
  TestFetcher fetcher;
  remote::ObjectLink link(fetcher.start(), 10s);
  for (int count = 0; count < 70'000; count += 1000) {
    std::vector<std::shared_future<remote::ObjectLink::ObjectPtr>> opening(1000);
    for (auto& each : opening) each = link.start_open("s3://bucket/none").coming;
    for (auto& each : opening) CHECK_THROWS_AS((void)each.get(), remote::RemoteError);
  }
}

TEST_CASE("objects are closed when no one reads them, and shared while several open them") {
  Link rig;
  {
    remote::set_opener(rig.opener);
    const remote::OpenTogether together({kUrl, "s3://bucket/none"});
    const auto one = remote::open_source(kUrl);
    const auto two = remote::open_source(kUrl);
    CHECK(read(*one, 0, 100) == read(*two, 0, 100));
    CHECK_FALSE(error_of([] { (void)remote::open_source("s3://bucket/none"); }).empty());
    remote::set_opener(nullptr);
  }
  CHECK(rig.fetcher.count(Ask::kOpen) == 2);
  CHECK(wait_until([&] { return rig.fetcher.count(Ask::kClose) == 1; }));
  CHECK_FALSE(error_of([] { (void)remote::open_source(kUrl); }).empty());
}

TEST_CASE("an object that opens after its users have given up is closed") {
  Link rig;
  std::promise<Asked> asked;
  rig.fetcher.answer_by([&](TestFetcher&, const Asked& one) {
    if (one.url != kUrl) return false;
    asked.set_value(one);
    return true;
  });
  remote::set_opener(rig.opener);
  {
    const remote::OpenTogether together({"s3://bucket/none", kUrl});
    CHECK_FALSE(error_of([] { (void)remote::open_source("s3://bucket/none"); }).empty());
  }
  remote::set_opener(nullptr);
  rig.fetcher.send_opened(asked.get_future().get(), *rig.object);
  CHECK(wait_until([&] { return rig.fetcher.count(Ask::kClose) == 1; }));
}

TEST_CASE("folders are listed") {
  Link rig;
  rig.fetcher.add("s3://bucket/b.ffr", rig.object);
  CHECK(rig.opener->list("s3://bucket/") ==
        std::vector<std::string>{"s3://bucket/a.ffr", "s3://bucket/b.ffr"});
}

TEST_CASE("blocks that were read are reported, once in a while") {
  Link rig;
  const auto file = rig.open();
  (void)read(*file, 0, 3 * kTestBlock);
  (void)read(*file, 8 * kTestBlock, 10);
  REQUIRE(wait_until([&] { return rig.fetcher.count(Ask::kUsed) >= 1; }));
  uint64_t blocks = 0;
  for (int i = 0; i < 300 && blocks < 4; ++i) {
    blocks = 0;
    for (const Asked& asked : rig.fetcher.asked()) {
      if (asked.kind == Ask::kUsed) blocks += asked.count;
    }
    std::this_thread::sleep_for(10ms);
  }
  CHECK(blocks == 4);
}

TEST_CASE("reads without a fetcher do not keep later reads from being reported") {
  Link rig;
  const auto file = rig.open();
  rig.object->fill(0, 10);
  rig.fetcher.kill();
  (void)read(*file, 0, 10);
  rig.opener->replace(rig.fetcher.start());
  REQUIRE(wait_until([&] { return rig.fetcher.count(Ask::kOpen) == 2; }));
  CHECK(wait_until([&] {
    (void)read(*file, 5 * kTestBlock, 10);
    return rig.fetcher.count(Ask::kUsed) > 0;
  }));
}

TEST_CASE("repeated advice requests its blocks once") {
  Link rig(4 << 20);
  const auto file = rig.open();
  rig.fetcher.hold();
  for (uint64_t block = 100; block < 110; ++block) rig.object->evict(block);
  const size_t before = rig.fetcher.count(Ask::kSoon);
  for (int i = 0; i < 5; ++i) file->will_need(100 * kTestBlock, 10 * kTestBlock);
  REQUIRE(wait_until([&] { return rig.fetcher.count(Ask::kSoon) > before; }));
  CHECK(rig.fetcher.count(Ask::kSoon) == before + 1);
  rig.fetcher.release();
  CHECK(wait_until([&] { return file->is_near(100 * kTestBlock, 10 * kTestBlock); }));
}

TEST_CASE("requests beyond the protocol's limit wait until others are answered") {
  Link rig(32 << 20);
  const auto file = rig.open();
  rig.fetcher.hold();
  for (uint64_t block = 0; block < 8192; ++block) rig.object->evict(block);
  std::atomic<int> good{0};
  for (uint64_t block = 0; block < 8192; ++block) {
    file->prepare(block * kTestBlock, 1, Source::Urgency::kSomeoneWaits,
                  [&](const std::exception_ptr& error) { good += error ? 0 : 1; });
  }
  std::this_thread::sleep_for(100ms);
  CHECK(rig.fetcher.count(Ask::kWant) <= 4096);
  rig.fetcher.release();
  CHECK(wait_until([&] { return good == 8192; }));
}

TEST_CASE("blocks that a mount fetched and read leave the page cache, some reads later") {
  constexpr uint64_t kCount = 200;
  constexpr uint64_t kHalf = kTestBlock / 2;
  struct {
    bool is_mount, is_there, is_dropped;
  } const cases[] = {{true, false, true}, {false, false, false}, {true, true, false}};
  for (const auto& [is_mount, is_there, is_dropped] : cases) {
    TemporaryFolder folder;
    Link rig(kCount * kTestBlock, 10s, folder / "");
    if (!is_mount) {
      rig.opener.reset();
      rig.opener = std::make_shared<remote::RemoteOpener>([&] { return rig.fetcher.start(); }, 10s);
    }
    if (is_there) rig.object->fill(0, kCount);
    const auto file = rig.open();
    for (uint64_t block = 0; block < kCount; ++block) (void)read(*file, block * kTestBlock, kHalf);
    CHECK(file->is_cached(0, kCount * kTestBlock));
    REQUIRE(fdatasync(rig.object->data()) == 0);
    for (uint64_t block = 0; block < kCount; ++block) {
      (void)read(*file, block * kTestBlock + kHalf, kHalf);
    }
    CHECK(file->is_cached((kCount - 100) * kTestBlock, 100 * kTestBlock));
    if (has_disk(rig.object->data())) CHECK(file->is_cached(0, kTestBlock) == !is_dropped);
    CHECK(read(*file, 0, kCount * kTestBlock) == rig.object->content());
  }
}

TEST_CASE("cached bytes that are only on disk are read past the page cache") {
  TemporaryFolder folder;
  Link rig(40'000, 10s, folder / "");
  const auto file = rig.open();
  CHECK(read(*file, 0, 40'000) == rig.object->content());
  CHECK(file->begin_direct(4000, 5000).fd < 0);  // in the page cache: just written
  const std::string path = "/proc/self/fd/" + std::to_string(rig.object->data());
  drop_cached_pages(path);
  if (file->begin_direct(4000, 5000).fd < 0) return;  // the file system has no direct reads
  BufferPool buffers(0);
  ReadQueue queue(buffers);
  for (const auto aio : {ReadPort::Aio::kMayWait, ReadPort::Aio::kNone}) {
    ReadPort port(queue, aio);
    bool is_over = false;
    port.submit(*file, 4000, 5000, [&](RawBytes raw) {
      is_over = true;
      REQUIRE_FALSE(raw.error);
      CHECK(text(raw.bytes) == rig.object->content().substr(4000, 5000));
    });
    while (!is_over) {  // if the kernel refuses the read at first, a thread does it
      port.wait(10'000);
      port.poll();
    }
    CHECK_FALSE(is_cached(path));
  }
  const auto begun = file->begin_direct(4000, 5000);
  rig.object->evict(1);
  CHECK(file->begin_direct(4000, 5000).fd < 0);
  rig.object->fill(1, 1);
  CHECK_FALSE(begun.is_good());
}

TEST_CASE("a forked child opens by itself an object that its parent is opening") {
  const auto object = std::make_shared<TestObject>(pattern(10'000, 1));
  TestFetcher silent;
  silent.answer_by([](TestFetcher&, const Asked&) { return true; });
  TestFetcher own;
  own.add(kUrl, object);
  const pid_t parent = getpid();
  remote::set_opener(std::make_shared<remote::RemoteOpener>(
      [&] { return getpid() == parent ? silent.start() : own.start(); }, 10s));
  {
    const remote::OpenTogether together({kUrl});
    const pid_t child = fork_among_threads();
    if (child == 0) {
      alarm(40);  // ends a child that would wait for its parent's link
      _exit(read(*remote::open_source(kUrl), 0, 10'000) == object->content() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  remote::set_opener(nullptr);
}
