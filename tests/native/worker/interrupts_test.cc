// native/worker/interrupts.h: a request gets one answer, the one that comes first.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <latch>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "worker/interrupts.h"

using namespace ffrfs;

namespace {

class Answers final : public fuse::AnswerSink {
 public:
  void answer(const fuse::Reply& reply, int error, fuse::Parts) noexcept override {
    const std::lock_guard lock(mutex_);
    given_.emplace_back(reply.unique(), error);
  }
  [[nodiscard]] std::vector<std::pair<uint64_t, int>> given() const { return given_; }

 private:
  std::mutex mutex_;
  std::vector<std::pair<uint64_t, int>> given_;
};

using Given = std::vector<std::pair<uint64_t, int>>;
using Clock = Interrupts::Clock;
const auto kLater = Clock::now() + std::chrono::hours(1);

}  // namespace

TEST_CASE("an interrupted request gets EINTR after a while, and its own answer is dropped") {
  Answers answers;
  int due_count = 0;
  Interrupts interrupts([&] { ++due_count; });
  const fuse::Reply waiting = interrupts.watch({answers, 2, {}});
  const fuse::Reply other = interrupts.watch({answers, 4, {}});
  CHECK(!interrupts.expire(Clock::time_point::max()));
  interrupts.interrupt(2);
  interrupts.interrupt(2);
  CHECK(due_count == 1);
  const auto now = Clock::now();
  const auto due = interrupts.expire(now);
  REQUIRE(due);
  CHECK(*due <= now + Interrupts::kGrace);
  CHECK(answers.given().empty());
  CHECK(!interrupts.expire(*due));
  CHECK(answers.given() == Given{{2, EINTR}});
  waiting.error(0);
  interrupts.interrupt(2);
  other.bytes({});
  interrupts.interrupt(4);
  CHECK(!interrupts.expire(kLater));
  CHECK(answers.given() == Given{{2, EINTR}, {4, 0}});
}

TEST_CASE("an answer that comes in time is given, in spite of an interrupt") {
  Answers answers;
  Interrupts interrupts([] {});
  const fuse::Reply waiting = interrupts.watch({answers, 2, {}});
  interrupts.interrupt(2);
  waiting.bytes({});
  CHECK(!interrupts.expire(kLater));
  CHECK(answers.given() == Given{{2, 0}});
}

TEST_CASE("a request can be watched again after unwatch(), and its interrupt is kept") {
  Answers answers;
  Interrupts interrupts([] {});
  (void)interrupts.watch({answers, 2, {}});
  interrupts.interrupt(2);
  const auto given = interrupts.unwatch(2);
  REQUIRE(given);
  CHECK_FALSE(interrupts.unwatch(2));
  CHECK(!interrupts.expire(kLater));
  const fuse::Reply waiting = interrupts.watch(*given);
  CHECK(!interrupts.expire(kLater));
  CHECK(answers.given() == Given{{2, EINTR}});
  CHECK_FALSE(interrupts.unwatch(2));
  waiting.bytes({});
  (void)interrupts.watch({answers, 4, {}});
  CHECK(interrupts.unwatch(4));
  CHECK(answers.given() == Given{{2, EINTR}});
}

TEST_CASE("an interrupt may come before its request") {
  Answers answers;
  int due_count = 0;
  Interrupts interrupts([&] { ++due_count; });
  interrupts.interrupt(6);
  CHECK(due_count == 0);
  const fuse::Reply late = interrupts.watch(interrupts.watch({answers, 6, {}}));
  CHECK(due_count > 0);
  CHECK(!interrupts.expire(kLater));
  CHECK(answers.given() == Given{{6, EINTR}});
  late.error(EIO);
  CHECK(answers.given().size() == 1);
}

TEST_CASE("close() drops later answers, and waits for those that are being given") {
  class Slow final : public fuse::AnswerSink {
   public:
    void answer(const fuse::Reply&, int, fuse::Parts) noexcept override {
      begun.count_down();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      is_given = true;
    }
    std::latch begun{1};
    std::atomic<bool> is_given{false};
  };
  Slow slow;
  Answers answers;
  Interrupts interrupts([] {});
  const fuse::Reply given = interrupts.watch({slow, 2, {}});
  const fuse::Reply late = interrupts.watch({answers, 4, {}});
  std::thread giving([&] { given.error(0); });
  slow.begun.wait();
  interrupts.close();
  CHECK(slow.is_given);
  giving.join();
  late.error(0);
  interrupts.watch({answers, 6, {}}).error(0);
  interrupts.interrupt(4);
  CHECK(!interrupts.expire(kLater));
  CHECK(answers.given().empty());
}

TEST_CASE("each request is answered once, whether its answer or its interrupt is first") {
  constexpr uint64_t kCount = 20'000;
  Answers answers;
  Interrupts interrupts([] {});
  std::atomic<uint64_t> watched{0};
  std::vector<fuse::Reply> replies;
  replies.reserve(kCount);
  std::thread interrupting([&] {
    for (uint64_t i = 0; i < kCount; i += 3) {
      while (watched < i) std::this_thread::yield();
      interrupts.interrupt(i);
      interrupts.expire(kLater);
    }
  });
  for (uint64_t i = 0; i < kCount; ++i) {
    replies.push_back(interrupts.watch({answers, i, {}}));
    watched = i;
    if (i >= 5) replies[i - 5].error(0);
  }
  for (uint64_t i = kCount - 5; i < kCount; ++i) replies[i].error(0);
  interrupting.join();
  auto given = answers.given();
  std::ranges::sort(given);
  REQUIRE(given.size() == kCount);
  for (uint64_t i = 0; i < kCount; ++i) CHECK(given[i].first == i);
}
