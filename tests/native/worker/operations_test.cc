// native/worker: a READ that fails while the disk holds back the name of its file.

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "prefetch_rig.h"
#include "stalling_file.h"
#include "worker/operations.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::chrono_literals;

namespace {

constexpr Ino kIno = StallingPack::ino_of(StallingPack::kMiddle);

// A mount of one pack with a damaged record. It collects the answers and the log.
class Mounted final : public fuse::AnswerSink {
 public:
  Mounted() : before_(dup(STDERR_FILENO)) {
    REQUIRE(pipe2(pipe_.data(), O_NONBLOCK) == 0);
    dup2(pipe_[1], STDERR_FILENO);
    completion_ = std::jthread([this](const std::stop_token& stopped) {
      while (!stopped.stop_requested()) {
        volume.wait(10);
        volume.poll();
      }
    });
  }
  ~Mounted() {
    let_go();
    completion_ = {};
    dup2(before_, STDERR_FILENO);
    for (const int fd : {before_, pipe_[0], pipe_[1]}) close(fd);
  }

  void answer(const fuse::Reply&, int error, fuse::Parts) noexcept override {
    failures_at_answer = volume.counters().page().row("read_failures").load();
    answered = error;
  }
  void read(Ino ino) {
    operations.handle({.opcode = fuse::Opcode::kRead, .unique = 1, .ino = ino, .size = 4096},
                      fuse::Reply(*this, 1, room_));
  }
  void let_go() { pack_.go(); }
  std::string logged() {
    std::array<char, 1 << 16> buffer{};
    const ssize_t size = ::read(pipe_[0], buffer.data(), buffer.size());
    return {buffer.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
  }

  std::atomic<int> answered = -1;
  std::atomic<uint64_t> failures_at_answer = 0;

 private:
  StallingPack pack_{StallingPack::Stalled::kName};
  std::vector<std::byte> room_ = std::vector<std::byte>(4096);
  const int before_;
  std::array<int, 2> pipe_{};

 public:
  Volume volume{{pack_.path}, {.packs = {.open_source = pack_.open()}}};
  Operations operations{volume, {}};

 private:
  std::jthread completion_;
};

}  // namespace

TEST_CASE("a READ that fails is counted and answered before the name of its file is looked up") {
  Mounted mounted;
  mounted.read(kIno);
  CHECK(wait_until([&] { return mounted.answered == EIO; }));
  CHECK(mounted.failures_at_answer == 1);
  mounted.answered = -1;
  mounted.read(2);  // a sound record, whose answer comes from the same thread
  CHECK(wait_until([&] { return mounted.answered == 0; }));
  CHECK(mounted.logged().empty());
  mounted.let_go();
  std::string lines;
  CHECK(wait_until([&] { return (lines += mounted.logged()).find('\n') != std::string::npos; }));
  CHECK(lines.find("cannot read n1020000: ") != std::string::npos);
}

TEST_CASE("a limited number of failures wait for names; others are logged by inode, at once") {
  Mounted mounted;
  FarRequests far;
  RequestLog log(mounted.volume, far);
  const auto fail = [&log](Ino ino, const std::string& reason) {
    log.expect_failure();
    log.log_failure(ino, ino, reason);
  };
  for (size_t i = 0; i < RequestLog::kFailuresWaitingMax; ++i) fail(kIno, "bad");
  CHECK(mounted.logged().empty());
  fail(7, "worse");
  CHECK(mounted.logged().ends_with("cannot read inode 7: worse\n"));
  mounted.let_go();
  log.finish();
  std::string lines;
  CHECK(wait_until([&] {
    lines += mounted.logged();
    return std::ranges::count(lines, '\n') == RequestLog::kFailuresWaitingMax;
  }));
  fail(7, "bad");
  log.finish();
  CHECK(mounted.logged().ends_with("cannot read n1000005: bad\n"));
}

TEST_CASE("finish() waits for the log line of a failure, even before that is written") {
  Mounted mounted;
  mounted.let_go();
  FarRequests far;
  RequestLog log(mounted.volume, far);
  log.expect_failure();
  const std::jthread answering([&log] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // between answer and log line
    log.log_failure(7, 7, "bad");
  });
  log.finish();
  CHECK(mounted.logged().ends_with("cannot read n1000005: bad\n"));
}
