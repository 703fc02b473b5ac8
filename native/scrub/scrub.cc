#include "scrub/scrub.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "fetch/record_stream.h"
#include "io/buffer.h"
#include "io/checked.h"
#include "io/error.h"
#include "record/chunk_check.h"
#include "record/index_layout.h"
#include "scrub/cached_run.h"

namespace ffrfs {
namespace {

// A thread takes this much at a time: enough to make taking it cheap, and little enough that no
// thread has much left when the others are done.
constexpr uint64_t kRunSize = uint64_t{4} << 20;
constexpr size_t kRunRecords = 16384;

// The most that is held of reads from storage: a batch of small records, or a piece of a large one.
constexpr uint64_t kBatchSize = uint64_t{16} << 20;
constexpr size_t kBatchRecords = 4096;

constexpr size_t kJobLimit = 64;

struct Item {
  uint64_t record;  // among all
  Extent extent;
};

class Scrub {
 public:
  Scrub(Fetcher& fetcher, const ExpectedChunks& chunks, uint64_t first, uint64_t end)
      : fetcher_(fetcher), shards_(fetcher.shards()), chunks_(chunks), next_(first), end_(end) {}

  [[nodiscard]] BadRecords run(size_t jobs) {
    check_cached(jobs);
    std::ranges::sort(missing_, {}, &Item::record);
    read_missing();
    std::ranges::sort(bad_, {}, &BadRecords::value_type::first);
    return std::move(bad_);
  }

 private:
  void check_cached(size_t jobs) {
    std::vector<std::jthread> threads;
    try {
      for (size_t i = 1; i < jobs; ++i) threads.emplace_back([this] { take_runs(); });
    } catch (const std::system_error&) {
      // No more threads can be created: the existing ones do the work.
    }
    take_runs();
    threads.clear();  // joins them
    if (failure_) std::rethrow_exception(failure_);
  }

  // The body of each thread. An exception here is not a record's: out of memory, for example.
  void take_runs() noexcept {
    try {
      CachedRun cached(fetcher_);
      std::vector<Item> run;
      std::vector<Item> missing;
      while (take(run)) {
        const Extent& last = run.back().extent;
        cached.begin(last.offset + last.size + last.trailer_size());
        for (const Item& item : run) {
          const bool is_done = attempt(item.record, [&] {
            return cached.check(item.extent, chunks_of(item));
          }).value_or(true);
          if (!is_done) missing.push_back(item);
        }
        cached.finish();
        const std::lock_guard lock(mutex_);
        missing_.insert(missing_.end(), missing.begin(), missing.end());
        missing.clear();
      }
    } catch (...) {
      {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
      }
      const std::lock_guard lock(next_mutex_);
      next_ = end_;
    }
  }

  // Takes the next records of one file into `run`; returns false if there are none.
  [[nodiscard]] bool take(std::vector<Item>& run) {
    run.clear();
    const std::lock_guard lock(next_mutex_);
    for (uint64_t size = 0; next_ < end_ && size < kRunSize && run.size() < kRunRecords; ++next_) {
      const uint64_t record = next_;
      const auto extent = attempt(record, [&] { return shards_.extent(record); });
      if (!extent) continue;
      if (!run.empty() && run.back().extent.shard != extent->shard) break;
      size += extent->size;
      run.push_back({record, *extent});
    }
    return !run.empty();
  }

  void read_missing() {
    for (const Item& item : missing_) {
      ChunkCheck chunks = chunks_of(item);
      if (item.extent.size > kBatchSize || !chunks.is_empty()) {
        read_batch();
        attempt(item.record, [&] {
          stream(item.extent, chunks);
          return true;
        });
        continue;
      }
      if (batch_size_ + item.extent.size > kBatchSize || batch_.size() == kBatchRecords) {
        read_batch();
      }
      if (memory_.capacity() == 0) memory_ = BufferPool(0).acquire(kBatchSize);
      const auto size = static_cast<size_t>(item.extent.size);
      batch_.push_back(
          {item.extent, memory_.first(kBatchSize).subspan(batch_size_, size), nullptr});
      batch_records_.push_back(item.record);
      batch_size_ += size;
    }
    read_batch();
  }

  void read_batch() {
    fetcher_.read(batch_, true);
    for (size_t i = 0; i < batch_.size(); ++i) {
      attempt(batch_records_[i], [&] {
        if (batch_[i].error) std::rethrow_exception(batch_[i].error);
        return true;
      });
    }
    batch_.clear();
    batch_records_.clear();
    batch_size_ = 0;
  }

  void stream(const Extent& extent, const ChunkCheck& expected) {
    const uint64_t size = extent.size + extent.trailer_size();
    with_second_try(shards_.file_of(extent), extent.offset, size, [&] {
      ChunkCheck chunks = expected;
      RecordStream stream(fetcher_, extent);
      for (auto piece = stream.next(); !piece.empty(); piece = stream.next()) chunks.add(piece);
      chunks.finish(shards_, extent);
    });
  }

  [[nodiscard]] ChunkCheck chunks_of(const Item& item) const {
    const bool may_have = chunks_ && item.extent.size > kIndexChunkSize;
    return ChunkCheck(may_have ? chunks_(item.record) : std::vector<uint32_t>{});
  }

  // Returns the result of `make`; nullopt if the record is bad.
  template <typename Make>
  auto attempt(uint64_t record, Make make) -> std::optional<decltype(make())> {
    try {
      return make();
    } catch (const std::exception& error) {
      if (is_shortage(error)) throw;
      const std::lock_guard lock(mutex_);
      bad_.emplace_back(record, fields_of(std::current_exception()));
    }
    return std::nullopt;
  }

  Fetcher& fetcher_;
  const ShardSet& shards_;
  const ExpectedChunks& chunks_;

  std::mutex next_mutex_;
  uint64_t next_;
  const uint64_t end_;

  std::mutex mutex_;  // guards the next three while there are threads
  std::vector<Item> missing_;
  BadRecords bad_;
  std::exception_ptr failure_;

  Buffer memory_;
  size_t batch_size_ = 0;
  std::vector<BatchItem> batch_;
  std::vector<uint64_t> batch_records_;
};

size_t thread_count(size_t jobs) {
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::min(jobs == 0 ? cores : jobs, kJobLimit);
}

}  // namespace

BadRecords scrub_records(Fetcher& fetcher, uint64_t first, uint64_t count, size_t jobs,
                         const ExpectedChunks& chunks) {
  const uint64_t all = fetcher.shards().count();
  const auto end = checked_add(first, count);
  if (!end || *end > all) {
    throw RangeError("records up to " + std::to_string(end.value_or(UINT64_MAX)) +
                     " were asked for; there are " + std::to_string(all));
  }
  return Scrub(fetcher, chunks, first, *end).run(thread_count(jobs));
}

}  // namespace ffrfs
