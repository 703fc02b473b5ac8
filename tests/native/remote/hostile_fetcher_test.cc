// native/remote: a hostile fetcher, or one with damaged files, causes errors and no wrong bytes;
// nothing hangs, and nothing outside the files is read.

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <string>

#include "io/error.h"
#include "no_descriptors.h"
#include "prefetch_rig.h"
#include "remote/remote_error.h"
#include "remote/remote_opener.h"
#include "test_fetcher.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::chrono_literals;
using remote::Ask;
using remote::Told;

namespace {

const std::string kUrl = "s3://bucket/a.ffr";

struct Link {
  Link() : object(std::make_shared<TestObject>(pattern(40'000, 1))) { fetcher.add(kUrl, object); }

  using Answer = std::function<bool(TestFetcher&, const Asked&)>;
  // Return the error of opening and reading the object, "" if its bytes are right.
  [[nodiscard]] std::string error_with(Answer answer) {
    fetcher.answer_by(std::move(answer));
    remote::RemoteOpener opener(fetcher.start(), 5s);
    try {
      const auto file = opener.open(kUrl);
      Bytes bytes(40'000, '?');
      file->read_fully(0, std::as_writable_bytes(std::span(bytes)));
      return bytes == object->content() ? "" : "WRONG BYTES";
    } catch (const StorageError& error) {
      return error.what();
    }
  }
  [[nodiscard]] std::string error_at(Ask kind,
                                     std::function<void(TestFetcher&, const Asked&)> answer) {
    return error_with([kind, answer](TestFetcher& fetcher_, const Asked& asked) {
      const bool is_it = asked.kind == kind || (kind == Ask::kWant && asked.kind == Ask::kSoon);
      if (is_it) answer(fetcher_, asked);
      return is_it;
    });
  }

  TestFetcher fetcher;
  std::shared_ptr<TestObject> object;
};

Bytes opened(uint64_t size, uint64_t block_size) {
  Bytes body;
  append_le(body, size);
  append_le<int64_t>(body, 7);
  append_le(body, block_size);
  return body + "v1";
}

}  // namespace

TEST_CASE("messages that are malformed, or that nobody asked for, end the link with an error") {
  Link rig;
  const std::string nonsense = "the fetcher has answered no request of this process";
  const std::vector<Bytes> raw{
      "", "x", Bytes(15, '\0'), Bytes(16, '\0'), Bytes(16, '\xff'), Bytes(65'536, 'x')};
  for (const Bytes& bytes : raw) {
    if (bytes.empty()) continue;  // an empty message would end the link
    CHECK(rig.error_at(Ask::kOpen, [&](TestFetcher& fetcher, const Asked&) {
      fetcher.send_raw(bytes);
    }) == nonsense);
  }
  CHECK(rig.error_at(Ask::kOpen, [](TestFetcher& fetcher, const Asked& asked) {
    fetcher.send(Told::kReady, asked.object, asked.id);
  }) == nonsense);
  CHECK(rig.error_at(Ask::kOpen, [](TestFetcher& fetcher, const Asked& asked) {
    fetcher.send(Told::kReady, asked.object, asked.id + 1000);
  }) == nonsense);
  CHECK(rig.error_at(Ask::kWant, [](TestFetcher& fetcher, const Asked& asked) {
    fetcher.send(Told::kReady, asked.object + 1, asked.id);
  }) == nonsense);
  CHECK(rig.error_at(Ask::kWant, [](TestFetcher& fetcher, const Asked& asked) {
    fetcher.send(Told::kReady, asked.object, asked.id, "more");
  }) == nonsense);
  CHECK(rig.error_at(Ask::kWant, [](TestFetcher& fetcher, const Asked& asked) {
    fetcher.send(Told::kListed, asked.object, asked.id, Bytes(4, '\0'));
  }) == nonsense);
}

TEST_CASE("an object opens only with its own two descriptors, and sane numbers") {
  Link rig;
  const TestObject& object = *rig.object;
  const auto error_for = [&](const Bytes& body, const std::vector<int>& carried) {
    return rig.error_at(Ask::kOpen, [&](TestFetcher& fetcher, const Asked& asked) {
      fetcher.send(Told::kOpened, asked.object, asked.id, body, carried);
    });
  };
  const Bytes good = opened(40'000, kTestBlock);
  CHECK(error_for(good, {object.data(), object.state()}).empty());
  for (const std::vector<int>& carried :
       {std::vector<int>{}, {object.data()}, {object.data(), object.state(), object.data()}}) {
    CHECK_FALSE(error_for(good, carried).empty());
  }
  for (size_t cut = 0; cut < 24; ++cut) {
    CHECK_FALSE(error_for(good.substr(0, cut), {object.data(), object.state()}).empty());
  }
  for (const uint64_t block_size : {0UL, 1UL, 4095UL, 8192UL, 1UL << 40, UINT64_MAX}) {
    CHECK_FALSE(error_for(opened(40'000, block_size), {object.data(), object.state()}).empty());
  }
  for (const uint64_t size : {0UL, 39'999UL, 40'001UL, 1UL << 62, UINT64_MAX}) {
    CHECK_FALSE(error_for(opened(size, kTestBlock), {object.data(), object.state()}).empty());
  }
  // Wrong descriptors: swapped, of another object, not of files.
  CHECK_FALSE(error_for(good, {object.state(), object.data()}).empty());
  const TestObject other(pattern(39'000, 2));
  CHECK_FALSE(error_for(good, {object.data(), other.state()}).empty());
  CHECK_FALSE(error_for(good, {other.data(), object.state()}).empty());
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  CHECK_FALSE(error_for(good, {object.data(), pipes[0]}).empty());
  CHECK_FALSE(error_for(good, {pipes[0], object.state()}).empty());
  close(pipes[0]);
  close(pipes[1]);
}

TEST_CASE("an object that opens while no descriptor is free fails alone, and opens later") {
  Link rig;
  const std::string other = "s3://bucket/b.ffr";
  rig.fetcher.add(other, std::make_shared<TestObject>(pattern(40'000, 2)));
  remote::RemoteOpener opener(rig.fetcher.start(), 5s);
  rig.fetcher.hold();
  const auto file = opener.open(kUrl);
  std::promise<std::exception_ptr> prepared;
  file->prepare(kTestBlock, 1, Source::Urgency::kSomeoneWaits,
                [&](const std::exception_ptr& error) { prepared.set_value(error); });
  for (int i = 0; i < 3; ++i) {
    std::string error;
    int code = 0;
    try {
      const NoDescriptors now;
      (void)opener.open(other);
    } catch (const StorageError& why) {
      error = why.what();
      code = why.code();
    }
    CHECK(error == other + ": cannot open: Too many open files");
    CHECK(code == EMFILE);
  }
  CHECK(opener.open(other)->size() == 40'000);
  // The first file's download goes on, over the same link.
  rig.fetcher.release();
  CHECK(prepared.get_future().get() == nullptr);
  CHECK(rig.fetcher.count(Ask::kOpen) == 5);
  CHECK(wait_until([&] { return rig.fetcher.count(Ask::kClose) == 4; }));
}

TEST_CASE("a state file that is damaged is refused") {
  Link rig;
  rig.object->write_state(40'001);
  CHECK(rig.error_with(nullptr).find("is of another object") != std::string::npos);
  rig.object->write_state(40'000, 2);
  CHECK(rig.error_with(nullptr).find("its version") != std::string::npos);
  rig.object->write_state(40'000);
  CHECK(rig.error_with(nullptr).empty());
  REQUIRE(pwrite(rig.object->state(), "x", 1, 100) == 1);
  CHECK(rig.error_with(nullptr).find("its checksum") != std::string::npos);
  REQUIRE(ftruncate(rig.object->state(), 4100) == 0);
  CHECK(rig.error_with(nullptr).find("it has 4100 bytes") != std::string::npos);
}

TEST_CASE(
    "files that are cut off while they are in use give errors, no signal and no endless wait") {
  Link rig;
  remote::RemoteOpener opener(rig.fetcher.start(), 5s);
  const auto file = opener.open(kUrl);
  Bytes bytes(40'000, '?');
  const auto target = std::as_writable_bytes(std::span(bytes));
  file->read_fully(0, target);
  // From now on the fetcher says that all blocks are ready.
  rig.fetcher.answer_by([](TestFetcher& fetcher, const Asked& asked) {
    fetcher.send(Told::kReady, asked.object, asked.id);
    return true;
  });
  REQUIRE(ftruncate(rig.object->state(), 4096 + 3) == 0);
  CHECK_THROWS_AS(file->read_fully(0, target), StorageError);
  CHECK_FALSE(file->is_near(0, 40'000));
  CHECK_FALSE(file->read_now(0, {&target, 1}));
  file->read_fully(0, target.first(100));
  REQUIRE(ftruncate(rig.object->data(), 50) == 0);
  CHECK_THROWS_AS(file->read_fully(0, target.first(100)), StorageError);
  CHECK_FALSE(file->read_now(0, {&target, 1}));
}

TEST_CASE("data that moves is read from its new files; files of other objects are ignored") {
  Link rig;
  remote::RemoteOpener opener(rig.fetcher.start(), 5s);
  const auto file = opener.open(kUrl);
  Bytes bytes(40'000, '?');
  const auto target = std::as_writable_bytes(std::span(bytes));
  file->read_fully(0, target);
  TestObject other(pattern(39'000, 2));
  rig.fetcher.send(Told::kMoved, 0, 0, "", {other.data(), other.state()});
  rig.fetcher.send(Told::kMoved, 77, 0, "", {other.data(), other.state()});
  TestObject next(pattern(40'000, 3));
  next.fill(0, 10);
  rig.fetcher.send(Told::kMoved, 0, 0, "", {next.data(), next.state()});
  CHECK(wait_until([&] {
    file->read_fully(0, target);
    return bytes == next.content();
  }));
}

TEST_CASE("data that moves while no descriptor is free is requested again, and read") {
  std::atomic<bool> has_moved{false};
  Link rig;
  const auto next = std::make_shared<TestObject>(rig.object->content());
  remote::RemoteOpener opener(rig.fetcher.start(), 5s);
  rig.fetcher.hold();
  const auto file = opener.open(kUrl);
  rig.fetcher.answer_by([&has_moved, next](TestFetcher& fetcher, const Asked& asked) {
    if (has_moved && asked.kind != Ask::kOpen) {
      next->fill(asked.first, asked.count);
      fetcher.send(Told::kReady, asked.object, asked.id);
    }
    return true;
  });
  std::promise<std::exception_ptr> prepared;
  file->prepare(kTestBlock, 1, Source::Urgency::kSomeoneWaits,
                [&](const std::exception_ptr& error) { prepared.set_value(error); });
  REQUIRE(wait_until([&] { return rig.fetcher.count(Ask::kWant) == 1; }));
  {
    const NoDescriptors now;
    rig.fetcher.send(Told::kMoved, 0, 0, "", {next->data(), next->state()});
    REQUIRE(wait_until([&] { return rig.fetcher.count(Ask::kOpen) == 2; }));
  }
  has_moved = true;
  CHECK(rig.fetcher.count(Ask::kClose) == 1);
  rig.fetcher.send_opened(rig.fetcher.asked().back(), *next);
  CHECK(prepared.get_future().get() == nullptr);
  Bytes bytes(40'000, '?');
  file->read_fully(0, std::as_writable_bytes(std::span(bytes)));
  CHECK(bytes == next->content());
}

TEST_CASE("an endless list ends with an error") {
  Link rig;
  rig.fetcher.answer_by([](TestFetcher& fetcher, const Asked& asked) {
    Bytes body;
    append_le<uint32_t>(body, 1);
    for (int i = 0; i < 30'000; ++i) body += Bytes("x") + '\0';
    for (int i = 0; i < 40; ++i) fetcher.send(Told::kListed, asked.object, asked.id, body);
    return true;
  });
  remote::RemoteOpener opener(rig.fetcher.start(), 5s);
  CHECK_THROWS_AS((void)opener.list("s3://bucket/"), StorageError);
}
