// native/volume/slowest_requests: which requests are remembered, for how long, and how they
// are told; against a model, under threads, and named while the disk waits.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <latch>
#include <map>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "io/crc.h"
#include "stats/counter_page.h"
#include "volume/slowest_requests.h"

using namespace ffrfs;
using namespace std::chrono_literals;

namespace {

constexpr size_t kCount = SlowestRequests::kCount;
constexpr uint64_t kSlowNs = SlowestRequests::kSlowNs;
constexpr uint64_t kKeptNs = SlowestRequests::kKeptNs;
constexpr uint64_t kNow = 1'000'000'000'000;

struct Told {
  uint64_t ended_ns;
  uint64_t elapsed_ns;
  RequestKind kind;
  Ino ino;
  std::string path;
};

// A row as another process finds it, once it is whole; nullopt: it is empty.
std::optional<Told> look(CounterPage& page, size_t number) {
  std::array<uint64_t, SlowestRequests::kRowCount> values{};
  const auto row = page.row("slowest." + std::to_string(number), values.size());
  bool is_whole = false;
  while (!is_whole) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = row[i].load(std::memory_order_relaxed);
    if (values[0] == 0) return std::nullopt;
    is_whole =
        values.back() == crc32(std::as_bytes(std::span(values).first(values.size() - 1)));
  }
  std::string path(SlowestRequests::kPathSizeMax, '\0');
  std::memcpy(path.data(), values.data() + 5, path.size());
  REQUIRE(values[4] <= path.size());
  path.resize(values[4]);
  return Told{values[0], values[1], static_cast<RequestKind>(values[2]), values[3], path};
}

std::map<Ino, Told> look_at_all(CounterPage& page) {
  std::map<Ino, Told> all;
  size_t count = 0;
  for (size_t i = 0; i < kCount; ++i) {
    if (auto told = look(page, i)) {
      ++count;
      all.emplace(told->ino, std::move(*told));
    }
  }
  CHECK(all.size() == count);  // no inode is there twice
  return all;
}

std::vector<uint64_t> times_of(CounterPage& page) {
  std::vector<uint64_t> times;
  for (const auto& [ino, told] : look_at_all(page)) times.push_back(told.elapsed_ns);
  std::ranges::sort(times);
  return times;
}

std::string number_of(Ino ino) { return "file " + std::to_string(ino); }

template <typename Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

}  // namespace

TEST_CASE("a fast request is passed over, a slow one is told with its path") {
  CounterPage page;
  SlowestRequests slowest(page, number_of);
  slowest.note(RequestKind::kRead, 7, kSlowNs - 1);
  CHECK(look_at_all(page).empty());
  slowest.note(RequestKind::kReaddir, 7, kSlowNs);
  REQUIRE(comes_true([&] { return look_at_all(page).at(7).path == "file 7"; }));
  const Told told = look_at_all(page).at(7);
  CHECK(told.kind == RequestKind::kReaddir);
  CHECK(told.elapsed_ns == kSlowNs);
  const auto age = std::chrono::steady_clock::now().time_since_epoch() -
                   std::chrono::nanoseconds(told.ended_ns);
  CHECK(age >= 0s);
  CHECK(age < 60s);
}

TEST_CASE("the slowest of an inode is told, and when that is old, the next") {
  CounterPage page;
  SlowestRequests slowest(page, number_of);
  slowest.remember(RequestKind::kRead, 5, 3 * kSlowNs, kNow);
  slowest.remember(RequestKind::kLookup, 5, 2 * kSlowNs, kNow + 1);
  CHECK(look_at_all(page).at(5).elapsed_ns == 3 * kSlowNs);
  slowest.remember(RequestKind::kLookup, 5, 4 * kSlowNs, kNow + 2);
  CHECK(look_at_all(page).at(5).elapsed_ns == 4 * kSlowNs);
  CHECK(look_at_all(page).at(5).kind == RequestKind::kLookup);
  slowest.remember(RequestKind::kRead, 5, kSlowNs, kNow + 2 + kKeptNs - 1);
  CHECK(look_at_all(page).at(5).elapsed_ns == 4 * kSlowNs);
  slowest.remember(RequestKind::kRead, 5, kSlowNs, kNow + 2 + kKeptNs);
  CHECK(look_at_all(page).at(5).elapsed_ns == kSlowNs);
}

TEST_CASE("of many the slowest stay, as a model has it") {
  CounterPage page;
  SlowestRequests slowest(page, number_of);
  std::mt19937_64 random(1);
  std::vector<uint64_t> model;
  for (Ino ino = 2; ino < 2000; ++ino) {
    const uint64_t elapsed_ns = kSlowNs + random() % 1'000'000'000;
    slowest.remember(RequestKind::kRead, ino, elapsed_ns, kNow + ino);
    model.push_back(elapsed_ns);
    std::ranges::sort(model, std::greater{});
    if (model.size() > kCount) model.pop_back();
    REQUIRE(times_of(page) == std::vector(model.rbegin(), model.rend()));
  }
}

TEST_CASE("what is too old makes room for what is less slow") {
  CounterPage page;
  SlowestRequests slowest(page, number_of);
  for (Ino ino = 1; ino <= kCount; ++ino) {
    slowest.remember(RequestKind::kRead, ino, 1000 * kSlowNs, kNow + ino);
  }
  slowest.remember(RequestKind::kRead, 100, kSlowNs, kNow + kKeptNs);
  CHECK_FALSE(look_at_all(page).contains(100));
  slowest.remember(RequestKind::kRead, 100, kSlowNs, kNow + 1 + kKeptNs);  // of 1 alone
  CHECK(look_at_all(page).contains(100));
  CHECK_FALSE(look_at_all(page).contains(1));
  CHECK(look_at_all(page).contains(2));
}

TEST_CASE("of a long path its end is told, of the root a slash, and any byte as it is") {
  const std::map<Ino, std::string> paths = {
      {1, ""},
      {2, std::string("\xff\n\0x", 4)},
      {3, std::string(SlowestRequests::kPathSizeMax, 'p')},
      {4, std::string(5000, 'p') + "/end"},
  };
  CounterPage page;
  SlowestRequests slowest(page, [&paths](Ino ino) { return paths.at(ino); });
  for (const auto& [ino, path] : paths) slowest.remember(RequestKind::kRead, ino, kSlowNs, kNow);
  const auto all_named = [&] {
    const auto all = look_at_all(page);
    return all.size() == paths.size() &&
           std::ranges::none_of(all, [](const auto& each) { return each.second.path.empty(); });
  };
  REQUIRE(comes_true(all_named));
  const auto all = look_at_all(page);
  CHECK(all.at(1).path == "/");
  CHECK(all.at(2).path == paths.at(2));
  CHECK(all.at(3).path == paths.at(3));
  CHECK(all.at(4).path.size() == SlowestRequests::kPathSizeMax);
  CHECK(all.at(4).path.starts_with("...pp"));
  CHECK(all.at(4).path.ends_with("pp/end"));
}

TEST_CASE("a path that has to be waited for holds up nobody, and no other's place gets it") {
  std::latch asked(1);
  std::latch answer(1);
  CounterPage page;
  SlowestRequests slowest(page, [&](Ino ino) {
    if (ino == 1) {
      asked.count_down();
      answer.wait();
    }
    return number_of(ino);
  });
  slowest.remember(RequestKind::kRead, 1, kSlowNs, kNow);
  asked.wait();
  CHECK(look_at_all(page).at(1).path.empty());
  for (Ino ino = 2; ino <= kCount + 1; ++ino) {  // the last one takes the place of 1
    slowest.remember(RequestKind::kRead, ino, 2 * kSlowNs, kNow);
  }
  CHECK_FALSE(look_at_all(page).contains(1));
  answer.count_down();
  for (Ino ino = 2; ino <= kCount + 1; ++ino) {
    CHECK(comes_true([&] { return look_at_all(page).at(ino).path == number_of(ino); }));
  }
}

TEST_CASE("a path that cannot be told is not asked for again and again") {
  std::atomic<int> asked = 0;
  CounterPage page;
  SlowestRequests slowest(page, [&asked](Ino) -> std::string {
    ++asked;
    throw std::bad_alloc();
  });
  slowest.remember(RequestKind::kRead, 3, kSlowNs, kNow);
  REQUIRE(comes_true([&] { return look_at_all(page).at(3).path == "?"; }));
  slowest.remember(RequestKind::kRead, 3, 2 * kSlowNs, kNow);
  CHECK(asked == 1);
}

TEST_CASE("threads remember at once, and who looks meanwhile can tell whole rows") {
  constexpr int kThreads = 4;
  constexpr uint64_t kRounds = 20'000;
  CounterPage page;
  SlowestRequests slowest(page, number_of);
  std::atomic<bool> is_over = false;
  std::jthread looking([&] {
    while (!is_over) {
      for (size_t i = 0; i < kCount; ++i) {
        const auto told = look(page, i);
        if (!told) continue;
        // Each inode's own: all of a row is of one request.
        REQUIRE(told->elapsed_ns % 1000 == told->ino % 1000);
        REQUIRE((told->path.empty() || told->path == number_of(told->ino)));
      }
    }
  });
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937_64 random(static_cast<uint64_t>(thread));
        for (uint64_t i = 0; i < kRounds; ++i) {
          const Ino ino = 1 + random() % 500;
          const uint64_t elapsed_ns = (kSlowNs + random() % 1'000'000) / 1000 * 1000 + ino % 1000;
          slowest.remember(RequestKind::kRead, ino, elapsed_ns, kNow + i * (kKeptNs / 1000));
        }
      });
    }
  }
  is_over = true;
  looking.join();
  CHECK(look_at_all(page).size() == kCount);
}
