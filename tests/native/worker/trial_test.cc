// native/worker/trial.h: suspects are handled one at a time, all other requests as they come.

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "fuse/journal.h"
#include "worker/trial.h"

using namespace ffrfs;

namespace {

class Answers final : public fuse::AnswerSink {
 public:
  void answer(const fuse::Reply& reply, int error, fuse::Parts) noexcept override {
    given.emplace_back(reply.unique(), error);
  }
  std::vector<std::pair<uint64_t, int>> given;
};

// A handler that answers at once, or when the test says so.
class Rig final : public fuse::Handler {
 public:
  void handle(const fuse::Request& request, const fuse::Reply& reply) noexcept override {
    handled.emplace_back(request.unique, request.name);
    if (answers_at_once) return reply.error(EIO);
    waiting.push_back(reply);
  }
  void answer_next() {
    const fuse::Reply reply = waiting.front();
    waiting.pop_front();
    reply.error(ENOENT);
  }
  bool answers_at_once = false;
  std::vector<std::pair<uint64_t, std::string>> handled;
  std::deque<fuse::Reply> waiting;
};

fuse::Request read_of(uint64_t ino, uint64_t unique, std::string_view name = "") {
  return {.opcode = fuse::Opcode::kRead, .unique = unique, .ino = ino, .name = name};
}

uint64_t key_of(uint64_t ino) {
  return fuse::request_key(ino, static_cast<uint32_t>(fuse::Opcode::kRead));
}

using Given = std::vector<std::pair<uint64_t, int>>;
using Handled = std::vector<std::pair<uint64_t, std::string>>;

}  // namespace

TEST_CASE("one suspect at a time is on trial, and others are not held up") {
  Rig rig;
  Answers answers;
  Counter on_trial = 0;
  Interrupts interrupts([] {});
  Trial trial(rig, {key_of(1), key_of(2)}, on_trial, interrupts);
  {
    const std::string first = "first";
    trial.handle(read_of(1, 10, first), {answers, 10, {}});
    const std::string second = "second";  // this memory is gone before the request is handled
    trial.handle(read_of(2, 20, second), {answers, 20, {}});
  }
  trial.handle(read_of(3, 30), {answers, 30, {}});
  CHECK(rig.handled == Handled{{10, "first"}, {30, ""}});
  CHECK(on_trial == key_of(1));
  rig.answer_next();
  CHECK(answers.given == Given{{10, ENOENT}});
  CHECK(rig.handled.back() == std::pair<uint64_t, std::string>{20, "second"});
  CHECK(on_trial == key_of(2));
  trial.handle(read_of(1, 12), {answers, 12, {}});  // 1 is no suspect any more
  CHECK(rig.handled.back().first == 12);
  while (!rig.waiting.empty()) rig.answer_next();
  CHECK(answers.given.size() == 4);
  CHECK(on_trial == 0);
}

TEST_CASE("a handler that answers at once gets one suspect after the other") {
  Rig rig;
  Answers answers;
  Counter on_trial = 0;
  Interrupts interrupts([] {});
  Trial trial(rig, {key_of(1)}, on_trial, interrupts);
  trial.handle(read_of(1, 1), {answers, 1, {}});
  constexpr uint64_t kCount = 100'000;  // a recursion would use up the stack
  for (uint64_t unique = 2; unique <= kCount; ++unique) {
    trial.handle(read_of(1, unique), {answers, unique, {}});
  }
  CHECK(rig.handled.size() == 1);
  rig.answers_at_once = true;
  rig.answer_next();
  CHECK(rig.handled.size() == kCount);
  CHECK(answers.given.size() == kCount);
  CHECK(answers.given.back() == std::pair<uint64_t, int>{kCount, EIO});
}

TEST_CASE("a suspect that is interrupted while it waits has no turn") {
  Rig rig;
  Answers answers;
  Counter on_trial = 0;
  Interrupts interrupts([] {});
  Trial trial(rig, {key_of(1), key_of(2)}, on_trial, interrupts);
  trial.handle(read_of(1, 10), {answers, 10, {}});
  trial.handle(read_of(2, 20), {answers, 20, {}});
  trial.handle(read_of(1, 11), {answers, 11, {}});
  interrupts.interrupt(20);
  CHECK(answers.given.empty());
  CHECK_FALSE(interrupts.expire(Interrupts::Clock::now() + Interrupts::kGrace));
  CHECK(answers.given == Given{{20, EINTR}});
  rig.answer_next();
  CHECK(rig.handled == Handled{{10, ""}, {11, ""}});
  CHECK(on_trial == 0);
  trial.handle(read_of(2, 21), {answers, 21, {}});  // 2 is still a suspect
  CHECK(on_trial == key_of(2));
  while (!rig.waiting.empty()) rig.answer_next();
  CHECK(answers.given == Given{{20, EINTR}, {10, ENOENT}, {11, ENOENT}, {21, ENOENT}});
}
