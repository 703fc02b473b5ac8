// native/prefetch, native/fetch: without memory or descriptors, the threads that read ahead skip a
// record and go on; a reader without memory holds up no other reader.

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "no_descriptors.h"
#include "prefetch_rig.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

// In these threads the allocations from the `first`th to the `last`th fail.
std::array<std::atomic<pid_t>, 8> victims{};
std::atomic<uint64_t> first{0};
std::atomic<uint64_t> last{0};  // 0: none fails, and none is counted
std::atomic<uint64_t> allocations{0};

bool is_to_fail() {
  if (last == 0) return false;
  const pid_t self = gettid();
  const auto is_self = [self](const auto& thread) { return thread == self; };
  if (!std::ranges::any_of(victims, is_self)) return false;
  const uint64_t number = ++allocations;
  return first <= number && number <= last;
}

}  // namespace

void* operator new(size_t size) {
  void* memory = is_to_fail() ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

// While an object of this class exists, allocations fail in the threads that read ahead. As long as
// nothing was read, these and the current thread are the only ones.
class Shortage {
 public:
  Shortage(uint64_t from, uint64_t to) {
    size_t count = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const pid_t thread = std::stoi(task.path().filename());
      if (thread != gettid() && count < victims.size()) victims.at(count++) = thread;
    }
    begin(from, to);
  }
  // Makes allocation `number` of the current thread fail.
  explicit Shortage(uint64_t number) {
    std::ranges::fill(victims, 0);
    victims[0] = gettid();
    begin(number, number);
  }
  ~Shortage() { last = 0; }

 private:
  static void begin(uint64_t from, uint64_t to) {
    allocations = 0;
    first = from;
    last = to;
  }
};

// A read of record 0, which may end late or never.
struct Reader {
  void begin(Rig& rig) {
    const std::span<const std::byte> expected = view(rig.records[0]);
    const auto take = [this, expected](const Slice& slice, const std::exception_ptr& error) {
      is_right = !error && std::ranges::equal(slice.bytes, expected);
      has_ended = true;
    };
    if (const auto now = rig.reads.read(rig.shards.extent(0), 0, expected.size(), take)) {
      take(*now, nullptr);
    }
  }
  bool end(Rig& rig) {
    return wait_until([&] {
      rig.reads.poll();
      return has_ended.load();
    });
  }

  bool is_right = false;
  std::atomic<bool> has_ended{false};
};

// A file of which the page cache has nothing. At a closed gate, threads that read ahead wait for
// that answer.
class GatedFile final : public Source {
 public:
  struct Gate {
    const pid_t reader = gettid();
    std::atomic<bool> is_closed{false};
    std::atomic<bool> has_waiting{false};
    std::atomic<bool> fails_once{false};  // one read fails, for lack of a descriptor
  };
  GatedFile(const std::string& path, Gate& gate) : GatedFile(open_local_file(path), gate) {}

  [[nodiscard]] bool is_cached(uint64_t, size_t) const override {
    while (gate_.is_closed && gettid() != gate_.reader) {
      gate_.has_waiting = true;
      usleep(1000);
    }
    return false;
  }
  [[nodiscard]] bool read_now(uint64_t, Parts) const override { return false; }
  void read_fully(uint64_t offset, std::span<std::byte> target) const override {
    if (gate_.fails_once.exchange(false)) throw StorageError(EMFILE, path(), "cannot open");
    file_->read_fully(offset, target);
  }

 private:
  GatedFile(std::unique_ptr<const Source> file, Gate& gate)
      : Source(file->path(), {.size = file->size()}), file_(std::move(file)), gate_(gate) {}

  const std::unique_ptr<const Source> file_;
  Gate& gate_;
};

}  // namespace

TEST_CASE("threads that read ahead survive a lack of memory, and then read all") {
  constexpr size_t kCount = 100;
  Rig rig(patterns(kCount, 10'000));
  const auto list = rig.prefetcher->open_list();
  {
    const Shortage now(1, UINT64_MAX);
    (void)rig.prefetcher->add(list, rig.hints(numbers(kCount)));
    CHECK(wait_until([] { return allocations > 5; }));
    CHECK(rig.counters.prefetch_fetched == 0);
  }
  CHECK(wait_until([&] { return rig.counters.prefetch_fetched == kCount; }));
  CHECK(rig.settles());
  for (const uint64_t record : numbers(kCount)) CHECK(rig.read(record));
  CHECK(rig.wrong == 0);
}

TEST_CASE("whichever allocation fails, no record stays in flight, and all can be read") {
  constexpr size_t kCount = 6;
  for (const bool is_awaited : {false, true}) {  // whether readers wait for the record
    for (uint64_t number = 1, made = UINT64_MAX; number <= made; ++number) {
      CAPTURE(number);
      Rig rig(patterns(kCount, 10'000));
      const auto list = rig.prefetcher->open_list();
      {
        const Shortage now(number, number);
        (void)rig.prefetcher->add(list, rig.hints(numbers(kCount)));
        for (uint64_t record = 0; is_awaited && record < kCount; ++record) {
          try {
            (void)rig.read(record);
          } catch (const std::bad_alloc&) {  // the error of the fetch that the reader waited for
          }
        }
        REQUIRE(rig.settles());
        made = allocations;
      }
      for (const uint64_t record : numbers(kCount)) (void)rig.read(record);
      CHECK(rig.wrong == 0);
    }
  }
}

TEST_CASE("whichever allocation of a reader fails, the next reader gets the record") {
  for (const size_t size : {size_t{10'000}, static_cast<size_t>(kWholeRecordSize) + 1}) {
    CAPTURE(size);
    bool has_failed = true;
    for (uint64_t number = 1; has_failed; ++number) {
      CAPTURE(number);
      Reader one;
      Reader next;
      Rig rig(patterns(1, size));
      bool is_refused = false;
      {
        const Shortage now(number);
        try {
          one.begin(rig);
        } catch (const std::bad_alloc&) {
          is_refused = true;
        }
        has_failed = allocations >= number;
      }
      REQUIRE((is_refused || one.end(rig)));
      next.begin(rig);
      REQUIRE(next.end(rig));
      CHECK(next.is_right);
    }
  }
}

TEST_CASE("a reader that waits for a record or batch without descriptors reads by itself") {
  GatedFile::Gate gate;
  bool is_record = false;
  SUBCASE("a record") { is_record = true; }
  SUBCASE("a batch") {}
  Rig rig(patterns(1, 4000), {.open = [&gate](const std::string& path) {
    return std::make_unique<const GatedFile>(path, gate);
  }});
  gate.is_closed = true;
  const auto list = rig.prefetcher->open_list();
  (void)rig.prefetcher->add(list, rig.hints({0}));
  REQUIRE(wait_until([&] { return gate.has_waiting.load(); }));
  std::exception_ptr failure;
  Bytes read;
  CHECK_FALSE(rig.reads.read(rig.shards.extent(0), 0, rig.records[0].size(),
                             [&](const Slice& slice, const std::exception_ptr& error) {
    failure = error;
    read = text(slice.bytes);
  }));
  {
    std::optional<NoDescriptors> now;
    if (!is_record) now.emplace();
    gate.fails_once = is_record;
    gate.is_closed = false;
    REQUIRE(wait_until([&] { return rig.reads.poll() > 0; }));
  }
  CHECK(failure == nullptr);
  CHECK(read == rig.records[0]);
  CHECK(rig.settles());
}
