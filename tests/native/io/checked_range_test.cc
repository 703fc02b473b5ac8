// native/io: ranges of a file that are checked in blocks, whose bytes may change or be cut off;
// and the pages that are kept in memory.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "io/checked_range.h"
#include "io/error.h"
#include "io/kept_pages.h"
#include "io/local_file.h"
#include "page_cache.h"
#include "scratch.h"
#include "threads.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

constexpr size_t kBlock = CheckedRange::kBlockSize;
constexpr size_t kPage = KeptPages::kPageSize;

std::vector<uint32_t> checksums(const Bytes& content) {
  std::vector<uint32_t> all;
  for (size_t at = 0; at < content.size(); at += kBlock) {
    all.push_back(crc32c(view(content.substr(at, kBlock))));
  }
  return all;
}

Bytes copy(const CheckedRange& range, size_t offset, size_t size) {
  Bytes bytes(size, '\0');
  range.copy(offset, std::as_writable_bytes(std::span(bytes)), "part");
  return bytes;
}

// A file of some blocks; the range covers it from `kOffset` on.
struct Blocks {
  static constexpr size_t kOffset = 4096 + 8;

  explicit Blocks(size_t size) : content(pattern(size, 1)) {}

  // Return the range with no page kept in memory yet.
  [[nodiscard]] CheckedRange fresh() const {
    return {file, kOffset, content.size(), checksums(content), "index", "mend it"};
  }
  void restore() const { overwrite(path, kOffset, content); }

  const TemporaryFolder folder;
  const Bytes content;
  const std::string path = folder.write("f", pattern(kOffset, 2) + content);
  const LocalFile file{path};
};

}  // namespace

TEST_CASE("a checked range gives the bytes that were written, at any offset") {
  const Blocks blocks(3 * kBlock + 77);
  const CheckedRange range = blocks.fresh();
  CHECK(range.size() == blocks.content.size());
  for (int i = 0; i < 2; ++i) {  // the second time from the kept pages
    CHECK(copy(range, 0, 0).empty());
    CHECK(copy(range, 5, 10) == blocks.content.substr(5, 10));
    for (const size_t at : {kPage, kBlock, 2 * kBlock, 3 * kBlock}) {
      CHECK(copy(range, at - 1, 2) == blocks.content.substr(at - 1, 2));
    }
    CHECK(copy(range, 0, blocks.content.size()) == blocks.content);
    drop_cached_pages(blocks.path);
    CHECK(copy(range, 3 * kBlock, 77) == blocks.content.substr(3 * kBlock));
  }
  uint64_t number = 0;
  std::memcpy(&number, blocks.content.data() + kPage - 3, sizeof number);
  CHECK(range.load<uint64_t>(kPage - 3, "part") == number);
  CHECK_NOTHROW(range.verify(0, blocks.content.size(), "part"));
}

TEST_CASE("a damaged block gives an error each time, and the others can be read") {
  const Blocks blocks(3 * kBlock);
  const CheckedRange range = blocks.fresh();
  overwrite(blocks.path, Blocks::kOffset + kBlock + 5, "?");
  for (int i = 0; i < 2; ++i) {
    // Far from the damage, but in the same block.
    CHECK_THROWS_WITH_AS((void)copy(range, 2 * kBlock - 1, 1),
                         doctest::Contains("f: damaged index (part): the checksum of 65536 bytes "
                                           "at offset 69640 is 0x"),
                         ChecksumError);
    CHECK_THROWS_WITH_AS((void)copy(range, kBlock - 1, 2), doctest::Contains("; mend it"),
                         ChecksumError);
    CHECK(copy(range, 0, kBlock) == blocks.content.substr(0, kBlock));
    CHECK(copy(range, 2 * kBlock, kBlock) == blocks.content.substr(2 * kBlock));
  }
  CHECK_THROWS_AS(range.verify(kBlock - 1, 2, "part"), ChecksumError);
  CHECK_NOTHROW(range.verify(0, kBlock, "part"));
  blocks.restore();
  CHECK(copy(range, 0, 3 * kBlock) == blocks.content);
}

TEST_CASE("bytes that are overwritten after their block was checked are not shown") {
  const Blocks blocks(2 * kBlock);
  const CheckedRange range = blocks.fresh();
  REQUIRE(copy(range, 0, 10) == blocks.content.substr(0, 10));
  overwrite(blocks.path, Blocks::kOffset, Bytes(2 * kPage, '?'));
  CHECK(copy(range, 100, 10) == blocks.content.substr(100, 10));  // from a kept page
  CHECK_THROWS_AS((void)copy(range, kPage, 10), ChecksumError);
  // A page of the damaged block that is itself unchanged.
  CHECK(copy(range, 2 * kPage, 10) == blocks.content.substr(2 * kPage, 10));
  CHECK_THROWS_AS(range.verify(0, 10, "part"), ChecksumError);
  blocks.restore();
  CHECK(copy(range, 0, 2 * kBlock) == blocks.content);
}

TEST_CASE("a truncated file gives errors, and its bytes once they are back") {
  const Blocks blocks(4 * kBlock);
  const CheckedRange range = blocks.fresh();
  REQUIRE(copy(range, 3 * kBlock, 10) == blocks.content.substr(3 * kBlock, 10));
  REQUIRE(truncate(blocks.path.c_str(), Blocks::kOffset + kBlock) == 0);
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS((void)copy(range, 2 * kBlock, 10),
                         doctest::Contains("cannot read the index (part) at offset 135176: the "
                                           "disk has failed, or the file was cut off"),
                         StorageError);
    // The block was checked before, but this page was not requested, so it is not kept.
    CHECK_THROWS_AS((void)copy(range, 3 * kBlock + kPage, 10), StorageError);
    CHECK(copy(range, 3 * kBlock, 10) == blocks.content.substr(3 * kBlock, 10));
    CHECK(copy(range, 0, 10) == blocks.content.substr(0, 10));
  }
  blocks.restore();
  CHECK(copy(range, 0, 4 * kBlock) == blocks.content);
}

TEST_CASE("reading changes no signal handler") {
  struct sigaction before{};
  struct sigaction after{};
  sigaction(SIGBUS, nullptr, &before);
  const Blocks blocks(kBlock);
  const CheckedRange range = blocks.fresh();
  REQUIRE(copy(range, 0, 10) == blocks.content.substr(0, 10));
  sigaction(SIGBUS, nullptr, &after);
  CHECK((after.sa_handler == before.sa_handler));
}

TEST_CASE("checksums take blanks as zeros, at edges of blocks too, but reads give their bytes") {
  const TemporaryFolder folder;
  const Bytes content = pattern(2 * kBlock, 11);
  const LocalFile file(folder.write("f", content));
  const std::vector<CheckedRange::Blank> blanks{{0, 4}, {kBlock - 2, 4}, {2 * kBlock - 4, 4}};
  Bytes blanked = content;
  for (const auto& blank : blanks) blanked.replace(blank.offset, blank.size, blank.size, '\0');
  const CheckedRange range(file, 0, content.size(), checksums(blanked), "header", "mend it",
                           blanks);
  CHECK(copy(range, 0, 100) == content.substr(0, 100));
  CHECK(copy(range, kBlock, kBlock) == content.substr(kBlock));
  // Blanks may change.
  overwrite(file.path(), kBlock - 2, "????");
  CHECK(copy(range, kBlock - 3, 2) == content.substr(kBlock - 3, 1) + "?");
}

TEST_CASE("many threads get no wrong byte of a file that is cut off and comes back") {
  const Blocks blocks(8 * kBlock);
  std::atomic<bool> is_over{false};
  std::atomic<int> wrong{0};
  std::atomic<int> good{0};
  std::atomic<int> bad{0};
  {
    // A range that the threads share. It is replaced now and then, so that they have to read again.
    std::mutex mutex;
    std::shared_ptr<const CheckedRange> present;
    const auto shared = [&](bool is_new) {
      const std::lock_guard lock(mutex);
      if (is_new || !present) present.reset(new CheckedRange(blocks.fresh()));
      return present;
    };
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        for (size_t k = i; !is_over; k += 7) {
          const size_t offset = k * 4099 % (blocks.content.size() - 100);
          try {
            const std::shared_ptr<const CheckedRange> range = shared(k % 50 == 0);
            if (copy(*range, offset, 100) != blocks.content.substr(offset, 100)) ++wrong;
            ++good;
          } catch (const StorageError&) {
            ++bad;
          } catch (const ChecksumError&) {
            ++bad;
          }
        }
      });
    }
    for (int round = 0; round < 100 || good == 0 || bad == 0; ++round) {
      REQUIRE(truncate(blocks.path.c_str(), Blocks::kOffset + kBlock) == 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      overwrite(blocks.path, Blocks::kOffset, Bytes(8 * kBlock, '?'));
      blocks.restore();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    is_over = true;
  }
  CHECK(wrong == 0);
  CHECK(copy(blocks.fresh(), 0, blocks.content.size()) == blocks.content);
}

TEST_CASE("threads that share a kept page get it although the file has become unreadable") {
  const Blocks blocks(kBlock);
  const CheckedRange range = blocks.fresh();
  CHECK(copy(range, 0, kPage) == blocks.content.substr(0, kPage));
  std::filesystem::resize_file(blocks.path, 0);
  std::atomic<int> wrong{0};
  in_threads(4, [&](uint32_t) {
    for (int i = 0; i < 20'000; ++i) {
      try {
        if (copy(range, 0, kPage) != blocks.content.substr(0, kPage)) ++wrong;
      } catch (const Error&) {
        ++wrong;
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("pages are kept, and the least recently used are dropped") {
  constexpr size_t kCount = 64;
  KeptPages pages(kCount * kPage);
  const auto content = [](uint64_t page) { return pattern(kPage, static_cast<uint32_t>(page)); };
  const auto kept = [&](uint64_t range, uint64_t page) {
    Bytes bytes(100, '\0');
    const bool is_kept = pages.copy({range, page}, 50, std::as_writable_bytes(std::span(bytes)));
    if (is_kept) CHECK(bytes == content(page).substr(50, 100));
    return is_kept;
  };
  CHECK_FALSE(kept(1, 0));
  for (uint64_t page = 0; page < kCount; ++page) pages.keep({1, page}, view(content(page)));
  // Neighbours do not push each other out.
  for (uint64_t page = 0; page < kCount; ++page) CHECK(kept(1, page));
  CHECK_FALSE(kept(2, 0));
  for (uint64_t page = kCount; page < 3 * kCount; ++page) {
    pages.keep({1, page}, view(content(page)));
    CHECK(kept(1, page));
    CHECK(kept(1, 7));  // still kept, because it is used all the time
  }
  CHECK_FALSE(kept(1, 8));
  pages.keep({1, 3 * kCount}, view(content(3 * kCount).substr(0, 150)));
  CHECK(kept(1, 3 * kCount));
}

TEST_CASE("threads that keep and copy the same pages see whole pages") {
  KeptPages pages(16 * kPage);
  std::atomic<int> wrong{0};
  std::atomic<int> found{0};
  in_threads(4, [&](uint32_t i) {
    for (uint64_t k = i; k < 20'000; ++k) {
      const KeptPages::Key key{1, k % 40};
      std::array<std::byte, kPage> bytes;
      if (pages.copy(key, 0, bytes)) {
        ++found;
        if (bytes.front() != std::byte(k % 40) || bytes.back() != bytes.front()) ++wrong;
      } else {
        bytes.fill(std::byte(k % 40));
        pages.keep(key, bytes);
      }
    }
  });
  CHECK(wrong == 0);
  CHECK(found > 0);
}

// Not under ASan: a fork may copy its allocator's locks while they are held; nobody unlocks them.
#ifndef FFRFS_ASAN
TEST_CASE("a child that is forked during reads can read") {
  const Blocks blocks(4 * kBlock);
  const CheckedRange range = blocks.fresh();
  std::atomic<bool> is_over{false};
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (size_t k = 0; !is_over; ++k) (void)copy(range, k % 100, 10);
    });
  }
  int failed = 0;
  for (int round = 0; round < 100; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      std::array<std::byte, 10> bytes;
      for (size_t k = 0; k < 100; ++k) range.copy(k, bytes, "part");
      _exit(text(bytes) == blocks.content.substr(99, 10) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    failed += status != 0 ? 1 : 0;
  }
  is_over = true;
  threads.clear();
  CHECK(failed == 0);
}
#endif
