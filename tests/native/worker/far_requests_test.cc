// native/worker/operations.h over a pack whose index is far away: no request waits on the thread
// that has brought it, an interrupted one gets EINTR, and the block it needs arrives all the same.

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fuse/protocol.h"
#include "index_file.h"
#include "remote/remote_opener.h"
#include "test_fetcher.h"
#include "worker/operations.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::chrono_literals;
using fuse::Opcode;
using remote::Ask;

namespace {

const std::string kUrl = "s3://bucket/indexed.ffr";
constexpr size_t kCount = 3000;

// Return names so long that the index of the pack has several blocks.
const std::vector<Bytes>& names() {
  static const std::vector<Bytes> all = [] {
    std::vector<Bytes> made = many(kCount);
    for (Bytes& name : made) name += Bytes(60, 'x');
    return made;
  }();
  return all;
}

Bytes record(size_t number) { return "record " + std::to_string(number); }

Bytes pack_bytes() {
  std::vector<Bytes> records;
  for (size_t i = 0; i < kCount; ++i) records.push_back(record(i));
  return indexed_pack(records, flat_sections(names())).file;
}

struct Answer {
  int error = 0;
  Bytes bytes;
};

class Answers final : public fuse::AnswerSink {
 public:
  void answer(const fuse::Reply& reply, int error, fuse::Parts parts) noexcept override {
    Answer made{.error = error, .bytes = {}};
    for (const fuse::Part part : parts) made.bytes += text(part);
    const std::lock_guard lock(mutex_);
    CHECK(given_.emplace(reply.unique(), made).second);
  }
  [[nodiscard]] size_t count() const {
    const std::lock_guard lock(mutex_);
    return given_.size();
  }
  [[nodiscard]] Answer of(uint64_t unique) const {
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (const auto found = given_.find(unique); found != given_.end()) return found->second;
      }
      std::this_thread::sleep_for(1ms);
    }
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, Answer> given_;
};

// A volume whose index is far away, and the operations that answer from it.
class FarIndex {
 public:
  FarIndex() : object(std::make_shared<TestObject>(pack_bytes())) {
    fetcher.add(kUrl, object);
    remote::set_opener(std::make_shared<remote::RemoteOpener>(fetcher.start(), 60s));
    volume = std::make_unique<Volume>(std::vector{kUrl}, VolumeOptions{});
    operations = std::make_unique<Operations>(*volume, OperationOptions{});
    for (uint64_t block = 0; block < block_count(); ++block) object->evict(block);
    completion = std::thread([this] {
      while (!is_over) {
        volume->wait(operations->expire_interrupts());
        volume->poll();
      }
    });
  }
  ~FarIndex() {
    // A real worker may end while requests run; here they use objects that are destroyed next.
    fetcher.release();
    while (worked_off() < unique_) std::this_thread::sleep_for(1ms);
    is_over = true;
    volume->wake();
    completion.join();
    operations->close();
    operations.reset();
    volume.reset();
    remote::set_opener(nullptr);
  }

  [[nodiscard]] uint64_t block_count() const {
    return (object->content().size() + kTestBlock - 1) / kTestBlock;
  }

  // Each of these sends a request and returns its number at once.
  uint64_t lookup(size_t number) {
    return ask({.opcode = Opcode::kLookup, .ino = 1, .name = names()[number]});
  }
  uint64_t list() { return ask({.opcode = Opcode::kReaddirplus, .ino = 1, .size = 100'000}); }
  uint64_t getattr(size_t number) { return ask({.opcode = Opcode::kGetattr, .ino = 2 + number}); }
  uint64_t read(size_t number) {
    return ask({.opcode = Opcode::kRead, .ino = 2 + number, .size = 4096});
  }

  TestFetcher fetcher;
  const std::shared_ptr<TestObject> object;
  std::unique_ptr<Volume> volume;
  std::unique_ptr<Operations> operations;
  Answers answers;

 private:
  // Return how many requests are done, also those whose answers were dropped.
  [[nodiscard]] uint64_t worked_off() const {
    uint64_t count = 0;
    for (const char* const kind : {"lookup", "getattr", "read", "readdir"}) {
      for (const Counter& bucket : volume->counters().page().row(std::string("request.") + kind,
                                                                 RequestTimes::kBucketCount)) {
        count += bucket;
      }
    }
    return count;
  }
  uint64_t ask(fuse::Request request) {
    // The memory that the request points to is gone before it is answered.
    Bytes name(request.name);
    std::vector<std::byte> room(4096);
    request.unique = ++unique_;
    request.name = name;
    operations->handle(request, {answers, request.unique, room});
    name.assign(name.size(), '?');
    return request.unique;
  }

  uint64_t unique_ = 0;
  std::atomic<bool> is_over{false};
  std::thread completion;
};

uint64_t ino_of(const Answer& found) {
  uint64_t ino = 0;
  REQUIRE(found.error == 0);
  REQUIRE(found.bytes.size() == sizeof(fuse::EntryOut));
  std::memcpy(&ino, found.bytes.data() + offsetof(fuse::EntryOut, nodeid), sizeof ino);
  return ino;
}

}  // namespace

TEST_CASE("requests that need a remote index block no thread, however many, and are answered") {
  FarIndex far;
  far.fetcher.hold();
  std::vector<uint64_t> lookups;
  for (size_t i = 0; i < 100; ++i) lookups.push_back(far.lookup(i * 29));
  const uint64_t attributes = far.getattr(2500);
  const uint64_t read = far.read(1700);
  const uint64_t list = far.list();
  std::this_thread::sleep_for(50ms);
  CHECK(far.answers.count() == 0);
  far.fetcher.release();
  for (size_t i = 0; i < 100; ++i) CHECK(ino_of(far.answers.of(lookups[i])) == 2 + i * 29);
  CHECK(far.answers.of(attributes).bytes.size() == sizeof(fuse::AttrOut));
  CHECK(far.answers.of(read).bytes == record(1700));
  CHECK(far.answers.of(list).bytes.find(names()[10]) != Bytes::npos);
}

TEST_CASE("an interrupted request gets EINTR, and its bytes still come into the cache") {
  FarIndex far;
  far.fetcher.hold();
  const std::vector<uint64_t> asked{far.lookup(2900), far.list(), far.getattr(2800),
                                    far.read(2700)};
  const uint64_t other = far.lookup(2901);
  for (const uint64_t unique : asked) far.operations->interrupt(unique);
  for (const uint64_t unique : asked) CHECK(far.answers.of(unique).error == EINTR);
  CHECK(far.answers.count() == asked.size());
  far.fetcher.release();
  CHECK(ino_of(far.answers.of(other)) == 2 + 2901);
  CHECK(ino_of(far.answers.of(far.lookup(2900))) == 2 + 2900);
  CHECK(far.answers.of(far.read(2700)).bytes == record(2700));
}

TEST_CASE("requests that need an index that cannot be fetched get EIO") {
  FarIndex far;
  far.fetcher.answer_by([](TestFetcher& self, const Asked& asked) {
    if (asked.kind != Ask::kWant) return false;
    self.send_failed(asked, "RemoteError", "the server says no");
    return true;
  });
  CHECK(far.answers.of(far.lookup(2000)).error == EIO);
  CHECK(far.answers.of(far.read(2000)).error == EIO);
}

// No request comes before it: after a slow one, another thread would look up a path in this index.
TEST_CASE("an index that is damaged in the cache is fetched again") {
  FarIndex far;
  far.object->fill(0, far.block_count());
  const Bytes& content = far.object->content();
  const size_t names_begin = content.rfind(names().front());
  far.object->damage(names_begin + 2222 * names().front().size());
  CHECK(ino_of(far.answers.of(far.lookup(2222))) == 2224);
  CHECK(far.fetcher.count(Ask::kAgain) == 1);
}
