// native/io: mapped files whose pages go away, and verified maps whose bytes change.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <utime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <memory>
#include <thread>

#include "io/error.h"
#include "io/mapped_file.h"
#include "io/source_file.h"
#include "io/thread_pool.h"
#include "io/verified_map.h"
#include "page_cache.h"
#include "scratch.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

constexpr const char* kDefaultAction = "FFRFS_TEST_DEFAULT_ACTION";
constexpr size_t kBlock = VerifiedMap::kBlockSize;

sigjmp_buf back;  // from a bus error that is not ours
volatile sig_atomic_t foreign_count = 0;

// The program's own handler, there before any file is mapped.
const bool has_own_handler = [] {
  if (std::getenv(kDefaultAction) != nullptr) return false;
  struct sigaction action {};
  action.sa_handler = [](int) {
    foreign_count = foreign_count + 1;
    siglongjmp(back, 1);
  };
  sigaction(SIGBUS, &action, nullptr);
  return true;
}();

// A mapping that MappedFile knows nothing of, of a file that has been cut off.
const volatile char* foreign_mapping(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  void* const mapped = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file.get(), 0);
  REQUIRE(mapped != MAP_FAILED);
  REQUIRE(ftruncate(file.get(), 0) == 0);
  return static_cast<const char*>(mapped);
}

void overwrite(const std::string& path, size_t offset, const Bytes& bytes) {
  // Kernels before 6.13 tell changes within a tick of the clock apart by nothing.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
          static_cast<ssize_t>(bytes.size()));
}

std::vector<uint32_t> checksums(const Bytes& content) {
  std::vector<uint32_t> all;
  for (size_t at = 0; at < content.size(); at += kBlock) {
    all.push_back(crc32c(view(content.substr(at, kBlock))));
  }
  return all;
}

// Each test runs with a file that counts as old, whose blocks are verified once, and with
// one that has just been written.
std::chrono::nanoseconds settling() {
  std::chrono::nanoseconds time = VerifiedMap::kSettling;
  SUBCASE("an old file") { time = {}; }
  SUBCASE("a young file") {}
  return time;
}

// A file of some blocks, and the map of it from `kOffset` on.
struct MappedBlocks {
  static constexpr size_t kOffset = 4096 + 8;

  MappedBlocks(size_t size, std::chrono::nanoseconds settling)
      : content(pattern(size, 1)),
        map(file, kOffset, content.size(), checksums(content), "index", "mend it", {}, settling) {}

  Bytes copy(size_t offset, size_t size) const {
    return map.read([&] { return text(map.bytes(offset, size, "part")); });
  }

  const TemporaryFolder folder;
  const Bytes content;
  const std::string path = folder.write("f", pattern(kOffset, 2) + content);
  const SourceFile file{path};
  const VerifiedMap map;
};

}  // namespace

TEST_CASE("a range of a file is mapped, at any offset") {
  const TemporaryFolder folder;
  const Bytes content = pattern(100'001, 1);
  const SourceFile file(folder.write("f", content));
  for (const size_t offset : {0UL, 1UL, 4095UL, 4096UL, 70'000UL, 100'000UL}) {
    const MappedFile mapped(file, offset, content.size() - offset);
    CHECK(mapped.populate(0, content.size() - offset));
    CHECK(text(mapped.bytes()) == content.substr(offset));
    CHECK_FALSE(mapped.is_damaged());
  }
  CHECK_THROWS_AS(MappedFile(file, 0, content.size() + 1), StorageError);
  CHECK_THROWS_AS(MappedFile(file, UINT64_MAX, 2), StorageError);
  CHECK_THROWS_AS(MappedFile(file, 0, 0), StorageError);
}

TEST_CASE("what was cut off reads as zeros, is marked, and can come back") {
  const TemporaryFolder folder;
  const Bytes content = pattern(100'000, 2);
  const SourceFile file(folder.write("f", content));
  const SourceFile other(folder.write("g", content));
  MappedFile mapped(file, 10, 99'990);
  const MappedFile unhurt(other, 0, 100'000);
  REQUIRE(text(mapped.bytes()) == content.substr(10));

  REQUIRE(truncate(file.path().c_str(), 50'000) == 0);
  CHECK_FALSE(mapped.populate(0, 99'990));
  CHECK(mapped.populate(0, 40'000));
  CHECK_FALSE(mapped.is_damaged());  // nobody has touched it
  CHECK(mapped.bytes()[80'000] == std::byte{0});
  CHECK(mapped.is_damaged());
  CHECK(text(mapped.bytes().first(40'000)) == content.substr(10, 40'000));
  CHECK_FALSE(unhurt.is_damaged());

  overwrite(file.path(), 0, content);
  CHECK(mapped.bytes()[80'000] == std::byte{0});
  mapped.restore();
  CHECK_FALSE(mapped.is_damaged());
  CHECK(text(mapped.bytes()) == content.substr(10));
}

TEST_CASE("also in a thread of a pool, which takes no other signals") {
  const TemporaryFolder folder;
  const SourceFile file(folder.write("f", pattern(10'000, 3)));
  const MappedFile mapped(file, 0, 10'000);
  REQUIRE(truncate(file.path().c_str(), 0) == 0);
  std::atomic<int> found{-1};
  {
    ThreadPool pool(1);
    pool.submit([&] { found = std::to_integer<int>(mapped.bytes()[9'999]); });
    while (found < 0) std::this_thread::yield();
  }
  CHECK(found == 0);
  CHECK(mapped.is_damaged());
}

TEST_CASE("bus errors of others go to the handler that was there before") {
  if (!has_own_handler) return;
  const TemporaryFolder folder;
  const SourceFile file(folder.write("f", pattern(4096, 4)));
  const MappedFile mapped(file, 0, 4096);
  const volatile char* const foreign = foreign_mapping(folder.write("g", pattern(4096, 5)));
  foreign_count = 0;
  if (sigsetjmp(back, 1) == 0) {
    (void)*foreign;
    FAIL("the page is there");
  }
  CHECK(foreign_count == 1);
  if (sigsetjmp(back, 1) == 0) raise(SIGBUS);
  CHECK(foreign_count == 2);
  CHECK_FALSE(mapped.is_damaged());
}

TEST_CASE("without such a handler they end the process") {
  if (std::getenv(kDefaultAction) != nullptr) {  // the child below
    const TemporaryFolder folder;
    const SourceFile file(folder.write("f", pattern(4096, 6)));
    const MappedFile mapped(file, 0, 4096);
    REQUIRE(truncate(file.path().c_str(), 0) == 0);
    CHECK(mapped.bytes()[0] == std::byte{0});
    alarm(20);
    if (std::string_view(std::getenv(kDefaultAction)) == "sent") raise(SIGBUS);
    (void)*foreign_mapping(folder.write("g", pattern(4096, 7)));
    _exit(0);
  }
  for (const char* const how : {"sent", "touched"}) {
    CAPTURE(how);
    const pid_t child = fork();
    if (child == 0) {
      setenv(kDefaultAction, how, 1);
      const int null = open("/dev/null", O_WRONLY);
      dup2(null, 1);
      dup2(null, 2);
      execl("/proc/self/exe", "mapped_file_test",
            "--test-case=without such a handler*", static_cast<char*>(nullptr));
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    // A sanitizer has a handler of its own, and exits.
    CHECK(((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) ||
           (WIFEXITED(status) && WEXITSTATUS(status) != 0)));
  }
}

TEST_CASE("mappings come and go while others have faults") {
  const TemporaryFolder folder;
  const SourceFile whole(folder.write("f", pattern(20'000, 8)));
  const SourceFile cut(folder.write("g", pattern(20'000, 9)));
  REQUIRE(truncate(cut.path().c_str(), 0) == 0);
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (int round = 0; round < 200; ++round) {
          const MappedFile mapped(i % 2 == 0 ? whole : cut, 0, 20'000);
          const bool is_zero = std::ranges::all_of(
              mapped.bytes(), [](std::byte byte) { return byte == std::byte{0}; });
          if (is_zero != (i % 2 == 1) || mapped.is_damaged() != is_zero) ++wrong;
        }
      });
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a verified map gives the bytes that were written") {
  const MappedBlocks blocks(3 * kBlock + 77, settling());
  CHECK(blocks.map.size() == blocks.content.size());
  CHECK(blocks.copy(0, 0).empty());
  CHECK(blocks.copy(5, 10) == blocks.content.substr(5, 10));
  CHECK(blocks.copy(kBlock - 1, 2) == blocks.content.substr(kBlock - 1, 2));
  CHECK(blocks.copy(0, blocks.content.size()) == blocks.content);
  drop_cached_pages(blocks.path);
  CHECK(blocks.copy(3 * kBlock, 77) == blocks.content.substr(3 * kBlock));
}

TEST_CASE("a damaged block is an error each time, and the others are there") {
  const MappedBlocks blocks(3 * kBlock, settling());
  overwrite(blocks.path, MappedBlocks::kOffset + kBlock + 5, "?");
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS((void)blocks.copy(kBlock, 1),
                         doctest::Contains("f: damaged index (part): the checksum of 65536 bytes "
                                           "at offset 69640 is 0x"),
                         ChecksumError);
    CHECK_THROWS_WITH_AS((void)blocks.copy(kBlock - 1, 2), doctest::Contains("; mend it"),
                         ChecksumError);
    CHECK(blocks.copy(0, kBlock) == blocks.content.substr(0, kBlock));
    CHECK(blocks.copy(2 * kBlock, kBlock) == blocks.content.substr(2 * kBlock));
  }
}

TEST_CASE("bytes that are overwritten after they were verified are seen") {
  const MappedBlocks blocks(2 * kBlock, settling());
  REQUIRE(blocks.copy(0, 2 * kBlock) == blocks.content);
  overwrite(blocks.path, MappedBlocks::kOffset + 100, "?");
  CHECK_THROWS_AS((void)blocks.copy(0, 10), ChecksumError);
  CHECK(blocks.copy(kBlock, 10) == blocks.content.substr(kBlock, 10));
  overwrite(blocks.path, MappedBlocks::kOffset + 100, blocks.content.substr(100, 1));
  CHECK(blocks.copy(0, 2 * kBlock) == blocks.content);
}

TEST_CASE("also while they are looked at: then they are looked at again") {
  const MappedBlocks blocks(kBlock, settling());
  int looks = 0;
  const auto look = [&] {
    if (++looks == 2) overwrite(blocks.path, MappedBlocks::kOffset, blocks.content);
    const Bytes found = text(blocks.map.bytes(0, 10, "part"));
    if (looks == 1) overwrite(blocks.path, MappedBlocks::kOffset, "?");
    return found;
  };
  CHECK(blocks.map.read(look) == blocks.content.substr(0, 10));
  CHECK(looks == 3);

  looks = 0;
  const auto spoil = [&] {
    overwrite(blocks.path, 0, "?");  // outside of the map, and yet it cannot know
    return ++looks;
  };
  CHECK_THROWS_WITH_AS((void)blocks.map.read(spoil), doctest::Contains("changes while it is read"),
                       StorageError);
  CHECK(looks == 4);
}

TEST_CASE("a file that was touched or renamed is read on") {
  const MappedBlocks blocks(kBlock, settling());
  REQUIRE(blocks.copy(0, 10) == blocks.content.substr(0, 10));
  const utimbuf times{1, 2};
  REQUIRE(utime(blocks.path.c_str(), &times) == 0);
  CHECK(blocks.copy(0, 10) == blocks.content.substr(0, 10));
  std::filesystem::rename(blocks.path, blocks.folder / "renamed");
  CHECK(blocks.copy(0, 10) == blocks.content.substr(0, 10));
  std::filesystem::remove(blocks.folder / "renamed");
  CHECK(blocks.copy(0, kBlock) == blocks.content);
}

TEST_CASE("a truncated file gives errors, and its bytes once they are back") {
  const MappedBlocks blocks(4 * kBlock, settling());
  REQUIRE(blocks.copy(0, 4 * kBlock) == blocks.content);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  REQUIRE(truncate(blocks.path.c_str(), MappedBlocks::kOffset + kBlock) == 0);
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS((void)blocks.copy(2 * kBlock, 10),
                         doctest::Contains("cannot read the index (part) at offset 135176"),
                         StorageError);
    CHECK(blocks.copy(0, 10) == blocks.content.substr(0, 10));
  }
  // Touched while it is looked at: zeros, but not as a result.
  const auto look = [&] {
    const volatile std::byte* const first = blocks.map.bytes(0, 10, "part").data();
    return first[3 * kBlock];
  };
  CHECK_THROWS_AS((void)blocks.map.read(look), StorageError);

  overwrite(blocks.path, MappedBlocks::kOffset, blocks.content);
  CHECK(blocks.copy(0, 4 * kBlock) == blocks.content);
}

TEST_CASE("blanks count as zeros, at the edges of blocks too") {
  const TemporaryFolder folder;
  Bytes content = pattern(2 * kBlock, 11);
  const SourceFile file(folder.write("f", content));
  const std::vector<VerifiedMap::Blank> blanks{{0, 4}, {kBlock - 2, 4}, {2 * kBlock - 4, 4}};
  for (const auto& blank : blanks) content.replace(blank.offset, blank.size, blank.size, '\0');
  const VerifiedMap map(file, 0, content.size(), checksums(content), "header", "mend it", blanks);
  CHECK(map.read([&] { return text(map.bytes(4, 100, "part")); }) == content.substr(4, 100));
  CHECK_NOTHROW((void)map.bytes(kBlock, kBlock, "part"));
}

TEST_CASE("many threads, a file that is cut off and comes back: never a wrong byte") {
  const MappedBlocks blocks(8 * kBlock, VerifiedMap::kSettling);
  std::atomic<bool> is_over{false};
  std::atomic<int> wrong{0};
  std::atomic<int> good{0};
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        for (size_t k = i; !is_over; k += 7) {
          const size_t offset = k * 4099 % (blocks.content.size() - 100);
          try {
            if (blocks.copy(offset, 100) != blocks.content.substr(offset, 100)) ++wrong;
            ++good;
          } catch (const StorageError&) {
          } catch (const ChecksumError&) {
          }
        }
      });
    }
    for (int round = 0; round < 20; ++round) {
      REQUIRE(truncate(blocks.path.c_str(), MappedBlocks::kOffset + kBlock) == 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      overwrite(blocks.path, MappedBlocks::kOffset, Bytes(8 * kBlock, '?'));
      overwrite(blocks.path, MappedBlocks::kOffset, blocks.content);
    }
    is_over = true;
  }
  CHECK(wrong == 0);
  CHECK(good > 0);
  CHECK(blocks.copy(0, blocks.content.size()) == blocks.content);
}
