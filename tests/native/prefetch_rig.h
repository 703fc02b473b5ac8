// A file of records with readers and a prefetcher over it, in place of a mount.

#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "page_cache.h"
#include "prefetch/prefetcher.h"
#include "record/ffrecord_shard.h"
#include "scratch.h"
#include "tree/flat_tree.h"
#include "volume/file_reads.h"

namespace ffrfs::test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
constexpr size_t kMib = size_t{1} << 20;

inline std::vector<Bytes> patterns(size_t count, size_t size) {
  std::vector<Bytes> records;
  for (size_t i = 0; i < count; ++i) {
    records.push_back(pattern(size + i % 7, static_cast<uint32_t>(i)));
  }
  return records;
}

// Returns 0, 1, ... count - 1.
inline std::vector<uint64_t> numbers(size_t count) {
  std::vector<uint64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Waits 40 s: enough on a busy machine, yet less than the minute that data read ahead is kept.
inline bool wait_until(const std::function<bool()>& is_true) {
  for (const auto end = Clock::now() + 40s; Clock::now() < end;) {
    if (is_true()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return is_true();
}

// Return whether all other threads of this process sleep and none waits for a CPU.
inline bool others_sleep() {
  const std::string own = std::to_string(gettid());
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string line;
    std::getline(std::ifstream(thread.path() / "stat"), line);
    const size_t name_end = line.rfind(')');  // the state follows it
    if (thread.path().filename() != own && name_end != std::string::npos &&
        line.compare(name_end, 3, ") S") != 0) {
      return false;
    }
  }
  return true;
}

struct Setting {
  PrefetchOptions options{};
  size_t cache_bytes = 64 * kMib;  // an eighth of it is for reading ahead
  OpenSource open = open_local_file;
};

// A file of records, its readers and a prefetcher; `push` takes the part of the kernel.
class Rig {
 public:
  using Push = std::function<bool(uint64_t record, std::span<const std::byte> bytes)>;

  explicit Rig(std::vector<Bytes> content, Setting setting = {},
               Push push = [](uint64_t, std::span<const std::byte>) { return false; })
      : records(std::move(content)),
        path(folder_.write("plain.ffr", ffrecord(records))),
        shards(open_ffrecord_shards({path}, IndexUse::kNone, setting.open)),
        tree_(shards.count()),
        reads(shards, counters, setting.cache_bytes, true) {
    drop_cached_pages(path);
    prefetcher = std::make_unique<Prefetcher>(
        tree_, true, reads.units(), setting.options, true,
        [this, push = std::move(push)](const Hint& hint, std::span<const std::byte> bytes) {
      if (hint.ino != hint.record + 2 || text(bytes) != records[hint.record]) ++wrong;
      return push(hint.record, bytes);
    });
    reads.units().set_observer([this](const Extent& extent, Found found) {
      if (prefetcher) prefetcher->note_read(extent, found);
    });
  }

  void damage(size_t record) const {
    flip_byte(path, shards.extent(record).offset);
    drop_cached_pages(path);
  }

  [[nodiscard]] Hint hint(uint64_t record) const { return {.record = record, .ino = record + 2}; }
  [[nodiscard]] std::vector<Hint> hints(const std::vector<uint64_t>& order) const {
    std::vector<Hint> all;
    for (const uint64_t record : order) all.push_back(hint(record));
    return all;
  }

  // Waits until no work is under way any more. Return whether that happened in time.
  [[nodiscard]] bool settles() {
    uint64_t before = UINT64_MAX;
    return wait_until([&] {
      const uint64_t now = counters.prefetch_fetched + counters.readahead_fetched;
      const bool is_still =
          now == std::exchange(before, now) && counters.queue_depth == 0 && others_sleep();
      if (!is_still) std::this_thread::sleep_for(20ms);
      return is_still;
    });
  }

  // Reads a record in parts of `step` bytes; throws the error that a read ends with. Return whether
  // no part had to wait.
  bool read(uint64_t record, size_t step = kMib) {
    const Bytes& expected = records[record];
    bool at_once = true;
    for (size_t offset = 0; offset < expected.size(); offset += step) {
      const size_t size = std::min(step, expected.size() - offset);
      std::atomic<bool> ready{false};
      std::exception_ptr failure;
      Bytes result;
      const auto now = reads.read(shards.extent(record), offset, size,
                                  [&](Slice slice, std::exception_ptr error) {
        result = text(slice.bytes);
        failure = error;
        ready = true;
      });
      if (now) {
        result = text(now->bytes);
      } else {
        at_once = false;
        while (!ready) {
          reads.wait(5);  // another thread's poll() may have taken our event
          reads.poll();
        }
        if (failure) std::rethrow_exception(failure);
      }
      if (result != expected.substr(offset, size)) ++wrong;
    }
    return at_once;
  }

 private:
  TemporaryFolder folder_;

 public:
  const std::vector<Bytes> records;
  const std::string path;
  const ShardSet shards;
  Counters counters;
  std::atomic<int> wrong{0};  // wrong bytes

 private:
  FlatTree tree_;

 public:
  FileReads reads;
  std::unique_ptr<Prefetcher> prefetcher;
};

}  // namespace ffrfs::test
