// native/worker/request_log.h: which requests are logged, how, and that none waits for that.

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <latch>
#include <string>
#include <vector>

#include "index_file.h"
#include "worker/request_log.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

constexpr uint64_t kSlowNs = RequestTimes::kSlowNs;
constexpr Ino kRoot = 1;

// The log of a volume with the files 2 and 3. It collects what is written to stderr.
class Logged {
 public:
  explicit Logged(size_t packs = 1)
      : volume(std::vector(packs, pack), {.packs = {.on_conflict = OnConflict::kFirst}}),
        before_(dup(STDERR_FILENO)) {
    REQUIRE(pipe2(pipe_.data(), O_NONBLOCK) == 0);
    dup2(pipe_[1], STDERR_FILENO);
  }
  ~Logged() {
    dup2(before_, STDERR_FILENO);
    for (const int fd : {before_, pipe_[0], pipe_[1]}) close(fd);
  }

  // Return all lines about slow requests so far.
  std::string lines() {
    std::latch done(1);
    far.run_aside([&done] { done.count_down(); });  // runs after them
    done.wait();
    std::array<char, 1 << 16> buffer{};
    const ssize_t size = read(pipe_[0], buffer.data(), buffer.size());
    return {buffer.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
  }
  uint64_t count(const std::string& kind) {
    uint64_t sum = 0;
    for (const Counter& bucket :
         volume.counters().page().row("request." + kind, RequestTimes::kBucketCount)) {
      sum += bucket;
    }
    return sum;
  }

  const TemporaryFolder folder;
  const std::string pack = folder.write(
      "x.ffr", indexed_pack({"one", "two"}, flat_sections({"first\n", "second"})).file);
  Volume volume;
  RequestLog log{volume, far};
  FarRequests far;

 private:
  const int before_;
  std::array<int, 2> pipe_{};
};

}  // namespace

TEST_CASE("a slow request is logged in one line with its kind, time, path and pack") {
  Logged made;
  made.log.note(RequestKind::kRead, 2, kSlowNs - 1);
  made.log.note(RequestKind::kStatfs, 0, kSlowNs);  // a request for no file
  CHECK(made.lines().empty());
  made.log.note(RequestKind::kRead, 2, kSlowNs);
  made.log.note(RequestKind::kLookup, kRoot, 12'345'678'901);
  CHECK(made.lines() == "<6>slow read: 1073 ms for first\\n, from " + made.pack +
                            "\n<6>slow lookup: 12345 ms for /, from " + made.pack + "\n");
  CHECK(made.count("read") == 2);
  CHECK(made.count("lookup") == 1);
  CHECK(made.count("statfs") == 1);
}

TEST_CASE("an inode of no pack does no harm") {
  constexpr Ino kFar = Ino{9} << 40 | 2;  // an inode of a tenth pack
  for (const size_t packs : {1U, 2U}) {
    Logged made(packs);
    made.log.note(RequestKind::kGetattr, kFar, kSlowNs);
    CHECK(made.lines().starts_with("<6>slow getattr: 1073 ms for "));
  }
}

TEST_CASE("slow requests that wait for a path hold up no other, and too many are only counted") {
  constexpr size_t kMany = RequestLog::kWaitingMax + 10;
  Logged made;
  std::latch index_is_read(1);
  made.far.run_aside([&index_is_read] { index_is_read.wait(); });
  for (size_t i = 0; i < kMany; ++i) made.log.note(RequestKind::kRead, 3, kSlowNs);
  CHECK(made.count("read") == kMany);
  index_is_read.count_down();
  CHECK(std::ranges::count(made.lines(), '\n') == RequestLog::kWaitingMax);
  made.log.note(RequestKind::kRead, 3, kSlowNs);
  CHECK(std::ranges::count(made.lines(), '\n') == 1);
}
