// native/volume: clients that send hints over real sockets to a real prefetcher. They are cut off,
// too many, too fast, dead, or hostile.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#include "damage.h"
#include "messages.h"
#include "prefetch/hint_list.h"
#include "prefetch/hint_server.h"
#include "prefetch_rig.h"
#include "record/ffrecord_shard.h"
#include "threads.h"
#include "tree/flat_tree.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::chrono_literals;
using namespace std::string_literals;

namespace {

constexpr uint64_t kRecordCount = 40'000;  // far more than a list and a socket have room for
constexpr size_t kWindowRecords = 16;
constexpr size_t kPieceSize = 64 << 10;  // received at once
constexpr std::chrono::milliseconds kPatience = 20s;
const Bytes kEnd(1, '\0');

// How many hints a list takes while none of them is read.
const size_t kRoom = HintList(kWindowRecords, PrefetchOptions{}.window_bytes).room();

const std::string& records_path() {
  static const TemporaryFolder folder;
  static const std::string path =
      folder.write("records.ffr", ffrecord(std::vector<Bytes>(kRecordCount, "r")));
  return path;
}

// In these tests a number names a record, and any other text names nothing.
std::optional<uint64_t> record_named(std::string_view text) {
  uint64_t record = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), record);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  return is_number && record < kRecordCount ? std::optional(record) : std::nullopt;
}

// A prefetcher, and the texts that it got from clients. The window is narrow, so that most hints
// stay in the list.
class Listener {
 public:
  explicit Listener(std::chrono::milliseconds ttl = 60s)
      : prefetcher_(tree_, true, reader_, {.window_records = kWindowRecords, .ttl = ttl}, true,
                    [](const Hint&, std::span<const std::byte>) { return false; }),
        clients_(std::make_unique<HintServer>(
            prefetcher_, [this](std::string_view text) { return resolve(text); }, counters)) {}

  void take(FileDescriptor socket) { clients_->take(std::move(socket)); }
  void end() { clients_.reset(); }

  [[nodiscard]] std::vector<Bytes> heard() {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  [[nodiscard]] size_t heard_count() {
    const std::lock_guard lock(mutex_);
    return heard_.size();
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    heard_.clear();
  }

  // Tells the prefetcher of a read.
  void read(uint64_t record) { prefetcher_.note_read(shards_.extent(record), Found::kPageCache); }

  // Return how many lists are free. This opens them all for a moment.
  [[nodiscard]] size_t free_lists() {
    std::vector<Prefetcher::ListId> lists;
    try {
      while (true) lists.push_back(prefetcher_.open_list());
    } catch (const std::length_error&) {
    }
    for (const Prefetcher::ListId list : lists) prefetcher_.drop(list);
    return lists.size();
  }

  Counters counters;

 private:
  // The text "throw" is handled as if there were no memory.
  std::optional<Hint> resolve(std::string_view text) {
    if (text == "throw") throw std::bad_alloc();
    const std::lock_guard lock(mutex_);
    heard_.emplace_back(text);
    const auto record = record_named(text);
    if (!record) return std::nullopt;
    return Hint{*record, tree_.file_of(*record), {}};
  }

  ShardSet shards_ = open_ffrecord_shards({records_path()});
  FlatTree tree_{kRecordCount};
  Fetcher fetcher_{shards_, counters, 32 << 20};
  DemandReader reader_{fetcher_};
  std::mutex mutex_;
  std::vector<Bytes> heard_;
  Prefetcher prefetcher_;
  std::unique_ptr<HintServer> clients_;
};

// The client's end of a socket; the listener reads the other end.
class Client {
 public:
  explicit Client(Listener& listener) {
    int ends[2] = {-1, -1};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    socket_ = FileDescriptor(ends[0]);
    listener.take(FileDescriptor(ends[1]));
  }

  [[nodiscard]] int fd() const { return socket_.get(); }

  // Sends all bytes, and waits while the other side does not read. Return false if that has closed.
  bool say(const Bytes& bytes) const {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t size = send(fd(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (size < 0) return false;
      sent += static_cast<size_t>(size);
    }
    return true;
  }

  // Sends as much as is possible without waiting. Return how much that was.
  [[nodiscard]] size_t say_at_once(const Bytes& bytes) const {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t size =
          send(fd(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (size < 0) break;
      sent += static_cast<size_t>(size);
    }
    return sent;
  }

  void die() { socket_.reset(); }
  // Sends nothing more, but can still see whether the other side has closed.
  void fall_silent() const { shutdown(fd(), SHUT_WR); }

  [[nodiscard]] bool is_closed(std::chrono::milliseconds patience = kPatience) const {
    pollfd polled{fd(), POLLRDHUP, 0};
    return poll(&polled, 1, static_cast<int>(patience.count())) == 1;
  }

 private:
  FileDescriptor socket_;
};

Bytes said(const std::vector<Bytes>& texts) {
  Bytes bytes;
  for (const Bytes& text : texts) bytes += text + '\0';
  return bytes;
}

std::vector<Bytes> numbers(uint64_t begin, uint64_t end) {
  std::vector<Bytes> texts;
  for (uint64_t number = begin; number < end; ++number) texts.push_back(std::to_string(number));
  return texts;
}

// Return a text about as long as a number, a path, or the longest text that is allowed.
Bytes random_text(Random& random) {
  switch (random() % 8) {
    case 0: return Bytes(HintServer::kTextSizeMax - (random() % 2) * (random() % 8000), 'p');
    case 1:
    case 2: {
      Bytes text(1 + random() % 40, '\0');
      for (char& byte : text) byte = static_cast<char>(1 + random() % 255);
      return text;
    }
    default: return std::to_string(random() % kRecordCount);
  }
}

// Fills the list of a client, and then its socket. Return all bytes that were sent.
Bytes fill(Listener& listener, const Client& client) {
  const int size_max = 16 << 10;
  REQUIRE(setsockopt(client.fd(), SOL_SOCKET, SO_SNDBUF, &size_max, sizeof size_max) == 0);
  const Bytes all = said(numbers(0, kRecordCount));
  size_t sent = 0;
  size_t heard = 0;
  // Until nothing moves any more: neither the list nor the socket has room.
  for (int still = 0; still < 50; ++still) {
    const size_t more = client.say_at_once(all.substr(sent));
    const size_t now = listener.heard_count();
    if (more > 0 || now != heard || !others_sleep()) still = 0;
    sent += more;
    heard = now;
    std::this_thread::sleep_for(1ms);
  }
  REQUIRE(sent < all.size());
  return all.substr(0, sent);
}

}  // namespace

TEST_CASE("the server gets the same texts in order, wherever their bytes are cut") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Listener listener;
    const size_t longest = size_t{1} << random() % 18;
    std::vector<Bytes> texts(random() % (longest < 256 ? 20 : 500));
    for (Bytes& text : texts) text = random_text(random);
    const bool says_all = random() % 2 == 0;
    const Bytes bytes = said(texts) + (says_all ? kEnd + "1\0"s : "12345"s);
    const Client client(listener);
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = std::min(1 + random() % longest, bytes.size() - at);
      if (!client.say(bytes.substr(at, size))) break;  // behind the end nobody reads
      at += size;
    }
    client.fall_silent();
    REQUIRE(client.is_closed());
    REQUIRE(listener.heard() == texts);
    const auto known = static_cast<uint64_t>(std::ranges::count_if(
        texts, [](const Bytes& text) { return record_named(text).has_value(); }));
    REQUIRE(listener.counters.prefetch_hinted == known);
    // All hints of a client that died are dropped, too.
    const uint64_t dropped = says_all ? texts.size() - known : texts.size();
    REQUIRE(listener.counters.prefetch_dropped == dropped);
  }
}

TEST_CASE("the list of a client that sent the end is kept, that of any other is dropped") {
  Listener listener;
  const Client all(listener);
  REQUIRE(all.say(said(numbers(0, 100)) + kEnd));
  CHECK(all.is_closed());
  CHECK(listener.counters.prefetch_hinted == 100);
  CHECK(listener.counters.prefetch_dropped == 0);
  listener.read(99);
  CHECK(listener.counters.prefetch_late == 1);  // its hint is still known
  const Client dead(listener);
  REQUIRE(dead.say(said(numbers(1000, 1200))));
  dead.fall_silent();
  CHECK(dead.is_closed());
  CHECK(listener.counters.prefetch_hinted == 300);
  CHECK(wait_until([&] { return listener.counters.prefetch_dropped == 200; }));
  listener.read(1000);
  CHECK(listener.counters.prefetch_late == 1);
}

TEST_CASE("a silent client keeps its list until it closes") {
  Listener listener;
  Client client(listener);
  REQUIRE(client.say(said(numbers(0, 1))));
  // Wait until the client has its list, as it could get none while free_lists() counts.
  REQUIRE(wait_until([&] { return listener.counters.prefetch_hinted == 1; }));
  CHECK(listener.free_lists() == Prefetcher::kListsMax - 1);
  CHECK_FALSE(client.is_closed(50ms));
  client.die();
  CHECK(wait_until([&] { return listener.free_lists() == Prefetcher::kListsMax; }));
}

TEST_CASE("texts that name nothing are counted, and other hints are kept") {
  Listener listener;
  const Client client(listener);
  REQUIRE(client.say(said({"/no", "1", "99999999999999999999999", "-1", " 2", "3"}) + kEnd));
  CHECK(client.is_closed());
  CHECK(listener.counters.prefetch_dropped == 4);
  CHECK(listener.counters.prefetch_hinted == 2);
}

TEST_CASE("a full list stops the server's reading, and room lets it go on to the end") {
  Listener listener;
  const Client client(listener);
  const Bytes sent = fill(listener, client);
  CHECK(listener.counters.prefetch_hinted == kRoom);
  CHECK(listener.heard_count() == kRoom);
  CHECK_FALSE(client.is_closed(50ms));
  // Now a reader starts, and the client sends the rest as the list moves on.
  const Bytes rest = said(numbers(0, kRecordCount)).substr(sent.size()) + kEnd;
  const std::jthread talking([&] { CHECK(client.say(rest)); });
  for (uint64_t record = 0; record < kRecordCount; ++record) {
    REQUIRE(wait_until([&] { return listener.counters.prefetch_hinted > record; }));
    listener.read(record);
  }
  CHECK(client.is_closed());
  CHECK(listener.heard() == numbers(0, kRecordCount));
  CHECK(listener.counters.prefetch_hinted == kRecordCount);
  CHECK(listener.counters.prefetch_dropped == 0);
}

TEST_CASE("the death of a client with a full list is noticed at once unless it sent the end") {
  Listener listener;
  Client client(listener);
  (void)fill(listener, client);
  SUBCASE("closed") { client.die(); }
  SUBCASE("half closed") { client.fall_silent(); }
  CHECK(wait_until([&] { return listener.free_lists() == Prefetcher::kListsMax; }));
  CHECK(wait_until([&] { return listener.counters.prefetch_dropped == kRoom; }));
  CHECK(listener.heard_count() == kRoom);
}

TEST_CASE("a client with a full list may die after it sent the end; its rest is still read") {
  // In the last case the bytes received at once end with a text, and the next begin with the end.
  for (const auto& rest : {numbers(0, 0), numbers(kRoom, kRoom + 1), numbers(kRoom, kRoom + 20'000),
                           std::vector<Bytes>(8, Bytes(kPieceSize / 8 - 1, 'x'))}) {
    CAPTURE(rest.size());
    Listener listener;
    Client client(listener);
    std::vector<Bytes> all = numbers(0, kRoom);
    REQUIRE(client.say(said(all)));
    REQUIRE(wait_until([&] { return listener.heard_count() == kRoom; }));
    REQUIRE(client.say(said(rest) + kEnd));
    client.die();
    std::this_thread::sleep_for(20ms);
    CHECK(listener.counters.prefetch_dropped == 0);  // the list stays
    all.insert(all.end(), rest.begin(), rest.end());
    for (uint64_t i = 0; i < all.size() && record_named(all[i]); ++i) {
      REQUIRE(wait_until([&] { return listener.counters.prefetch_hinted > i; }));
      listener.read(i);
    }
    // Not earlier: the lists that free_lists() opens would push out this one.
    CHECK(wait_until([&] { return listener.heard_count() == all.size(); }));
    CHECK(wait_until([&] { return listener.free_lists() == Prefetcher::kListsMax; }));
    CHECK(listener.heard() == all);
  }
}

TEST_CASE("the full list of a silent client that sent the end expires, and its socket closes") {
  Listener listener(100ms);
  const Client client(listener);
  REQUIRE(client.say(said(numbers(0, kRoom))));
  REQUIRE(wait_until([&] { return listener.heard_count() == kRoom; }));
  REQUIRE(client.say(said(numbers(kRoom, kRoom + 1000)) + kEnd));
  client.fall_silent();
  CHECK(client.is_closed());
  CHECK(wait_until([&] { return listener.free_lists() == Prefetcher::kListsMax; }));
  CHECK(listener.counters.prefetch_dropped == kRoom);
}

TEST_CASE("unread lists of clients that have died make room for others") {
  Listener listener;
  const Bytes all = said(numbers(0, kRoom + 1)) + kEnd;
  std::vector<Client> clients;
  for (size_t i = 0; i < Prefetcher::kListsMax; ++i) {
    clients.emplace_back(listener);
    listener.forget();
    // The list is full, or has no more room beside the other lists.
    REQUIRE(clients.back().say(all));
    REQUIRE(wait_until([&] { return others_sleep(); }));
    clients.back().fall_silent();
  }
  CHECK(wait_until([&] {
    const Client next(listener);
    listener.forget();
    return next.say(said({"/next"}) + kEnd) && next.is_closed() &&
           listener.heard() == std::vector<Bytes>{"/next"};
  }));
}

TEST_CASE("the zero byte behind another text is not taken for the end") {
  // Whichever way the bytes in the socket are split when the server searches them for the end.
  const Bytes longest(HintServer::kTextSizeMax, 'x');
  const Bytes piece = said(std::vector<Bytes>(7, Bytes(kPieceSize / 8 - 1, 'x'))) + longest;
  for (const Bytes& rest : {"7"s, "7\0"s, said(numbers(0, 15'000)), piece + "\0"s}) {
    CAPTURE(rest.size());
    Listener listener;
    Client client(listener);
    REQUIRE(client.say(said(numbers(0, kRoom))));
    REQUIRE(wait_until([&] { return listener.heard_count() == kRoom; }));
    REQUIRE(client.say(rest));
    client.die();
    CHECK(wait_until([&] { return listener.free_lists() == Prefetcher::kListsMax; }));
    CHECK(listener.heard_count() == kRoom);
  }
}

TEST_CASE("the longest text is accepted, a longer one closes its client and drops its hints") {
  Listener listener;
  const Bytes longest(HintServer::kTextSizeMax, 'x');
  const Client good(listener);
  REQUIRE(good.say(said({longest, "/1"})));
  CHECK(wait_until([&] { return listener.heard_count() == 2; }));
  CHECK(listener.heard()[0] == longest);
  listener.forget();
  for (const Bytes& end : {"\0"s, ""s, "xx"s, Bytes(1 << 20, 'x')}) {
    CAPTURE(end.size());
    const Client bad(listener);
    bad.say(said({"2", "3"}) + longest + "x" + end);
    CHECK(bad.is_closed());
  }
  for (const Bytes& text : listener.heard()) CHECK(text.size() == 1);  // never the long one
  CHECK(listener.counters.prefetch_dropped == 2 + listener.counters.prefetch_hinted);
  REQUIRE(good.say(said({"4"}) + kEnd));
  CHECK(good.is_closed());
}

TEST_CASE("clients beyond the limit are closed at once, and disturb nobody") {
  Listener listener;
  std::vector<Client> clients;
  for (size_t i = 0; i < Prefetcher::kListsMax; ++i) clients.emplace_back(listener);
  for (int i = 0; i < 10; ++i) CHECK(Client(listener).is_closed());
  for (size_t i = 0; i < clients.size(); ++i) {
    REQUIRE(clients[i].say(said({std::to_string(i)})));
  }
  CHECK(wait_until([&] { return listener.heard_count() == clients.size(); }));
  // When one client has gone, another may come.
  clients.front().die();
  CHECK(wait_until([&] { return listener.free_lists() == 1; }));
  CHECK(wait_until([&] {
    const Client next(listener);
    return next.say(said({"/next"}) + kEnd) && next.is_closed() &&
           listener.heard().back() == "/next";
  }));
  for (size_t i = 1; i < clients.size(); ++i) CHECK_FALSE(clients[i].is_closed(0ms));
}

TEST_CASE("lists of clients that sent the end make room for others") {
  Listener listener;
  for (size_t i = 0; i < Prefetcher::kListsMax; ++i) {
    const Client client(listener);
    REQUIRE(client.say(said({std::to_string(i)}) + kEnd));
    REQUIRE(client.is_closed());
  }
  const Client client(listener);
  REQUIRE(client.say(said({"/next"}) + kEnd));
  CHECK(client.is_closed());
  CHECK(listener.heard().back() == "/next");
}

TEST_CASE("a client for which there is no memory is dropped, and others go on") {
  Listener listener;
  const Client good(listener);
  const Client bad(listener);
  REQUIRE(bad.say(said({"1", "2", "throw"})));
  CHECK(bad.is_closed());
  REQUIRE(good.say(said({"3"}) + kEnd));
  CHECK(good.is_closed());
  CHECK(listener.counters.prefetch_hinted == 1);  // hints that were not added yet are lost
}

TEST_CASE("descriptors that are no connected sockets are closed") {
  Listener listener;
  int ends[2] = {-1, -1};
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const FileDescriptor write_end(ends[1]);
  listener.take(FileDescriptor(ends[0]));
  REQUIRE(write(write_end.get(), "1", 1) == 1);
  pollfd polled{write_end.get(), POLLERR, 0};
  CHECK(poll(&polled, 1, 20'000) == 1);  // the server has closed its end of the pipe
  listener.take(FileDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC)));
  listener.take(FileDescriptor(open("/dev/zero", O_RDONLY | O_CLOEXEC)));
  listener.take(FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  CHECK(wait_until([&] { return listener.free_lists() == Prefetcher::kListsMax; }));
  CHECK(listener.heard_count() == 0);
}

TEST_CASE("descriptors that a client sends are closed and urgent bytes do no harm") {
  Listener listener;
  const auto open_count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const Client client(listener);
  REQUIRE(client.say(said({"1"})));
  REQUIRE(wait_until([&] { return listener.heard_count() == 1; }));
  const auto before = open_count();
  for (int i = 0; i < 20; ++i) {
    REQUIRE(client.say("2"));
    REQUIRE(send_message(client.fd(), kEnd, {client.fd()}) == 1);
    send(client.fd(), "!", 1, MSG_OOB | MSG_NOSIGNAL);  // not every kernel supports it
    REQUIRE(client.say("/3\0"s));
  }
  REQUIRE(client.say(kEnd));
  CHECK(client.is_closed());
  CHECK(open_count() == before - 1);
  const auto texts = listener.heard();
  CHECK(std::ranges::count(texts, "2") == 20);
  CHECK(std::ranges::count_if(texts, [](const Bytes& text) { return text.ends_with("/3"); }) == 20);
}

TEST_CASE("after many clients that send any bytes, and die anywhere, the next one is heard") {
  Listener listener(100ms);
  in_threads(8, [&listener](uint32_t thread) {
    Random random(thread);
    for (int round = 0; round < 20; ++round) {
      std::vector<Bytes> texts(random() % 600);
      for (Bytes& text : texts) text = random_text(random);
      Bytes bytes = said(texts);
      if (random() % 4 == 0) bytes = damaged(bytes, random);
      if (random() % 4 == 0) {
        std::ranges::generate(bytes, [&] { return static_cast<char>(random()); });
      }
      const Client client(listener);
      for (size_t at = 0; at < bytes.size();) {
        const size_t size = 1 + random() % 100'000;
        if (client.say_at_once(bytes.substr(at, size)) == 0 && client.is_closed(1ms)) break;
        at += size;
        listener.read(random() % kRecordCount);
      }
      if (random() % 2 == 0) (void)client.say_at_once(kEnd);
    }
  });
  // This works as soon as the lists of the clients that sent the end have expired.
  CHECK(wait_until([&] {
    const Client next(listener);
    listener.forget();
    const bool was_taken = next.say(said({"/next"}) + kEnd) && next.is_closed();
    return was_taken && listener.heard() == std::vector<Bytes>{"/next"};
  }));
}

TEST_CASE("the server ends at once, whatever its clients do, and closes them all") {
  for (int round = 0; round < 5; ++round) {
    Listener listener;
    const Client silent(listener);
    const Client full(listener);
    (void)fill(listener, full);
    const Client busy(listener);
    std::atomic<bool> ended{false};
    std::jthread talking([&] {
      while (busy.say(said(numbers(0, 100)))) {
      }
      ended = true;
    });
    std::jthread coming([&] {
      for (int i = 0; i < 200 && !ended; ++i) (void)Client(listener).say(said({"5"}));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(round));
    coming.join();
    listener.end();
    CHECK(silent.is_closed(0ms));
    CHECK(full.is_closed(0ms));
    CHECK(busy.is_closed(0ms));
    CHECK(listener.free_lists() == Prefetcher::kListsMax);
    listener.read(0);  // this makes room, but nobody is told of it any more
  }
}

TEST_CASE("without a client there is no thread") {
  Listener listener;
  const auto thread_count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const auto before = thread_count();
  for (int i = 0; i < 3; ++i) {
    const Client client(listener);
    REQUIRE(client.say(kEnd));
    CHECK(client.is_closed());
  }
  CHECK(thread_count() <= before + 1);  // a thread of the test before may still have been there
}
