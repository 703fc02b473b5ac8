#include "volume/batch_reader.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "volume/storage_pass.h"
#include "volume/verification.h"

namespace ffrfs {
namespace {

// Below this, waking another thread costs more than it brings (about 50 µs).
constexpr uint64_t kWorthSharingBytes = 512 << 10;
constexpr size_t kHelperLimit = 7;

size_t helper_count() {
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::min(cores - 1, kHelperLimit);
}

}  // namespace

struct BatchReader::Runtime {
  explicit Runtime(size_t free_limit_bytes) : buffers(free_limit_bytes) {}

  BufferPool buffers;
  ThreadPool helpers{std::max<size_t>(1, helper_count())};
  std::mutex mutex;
  std::vector<std::unique_ptr<ReadQueue>> idle_queues;

  [[nodiscard]] std::unique_ptr<ReadQueue> take_queue() {
    {
      const std::lock_guard lock(mutex);
      if (!idle_queues.empty()) {
        auto queue = std::move(idle_queues.back());
        idle_queues.pop_back();
        return queue;
      }
    }
    return std::make_unique<ReadQueue>(buffers, ReadQueue::Aio::kMayWait);
  }

  // Only a queue with nothing in flight comes back.
  void return_queue(std::unique_ptr<ReadQueue> queue) {
    const std::lock_guard lock(mutex);
    idle_queues.push_back(std::move(queue));
  }
};

// The items of one call, shared by the calling thread and its helpers: whoever is
// free takes the next. A helper that comes late finds nothing left and touches
// nothing of the caller's.
struct BatchReader::CachedPass {
  const ShardSet& shards;
  Counters& counters;
  const std::span<BatchItem> items;
  const bool check;
  const ItemDone& done;
  BufferPool& buffers;
  std::vector<char> missing;  // by item: not in the page cache (not vector<bool>: threads)
  std::atomic<size_t> next{0};
  std::atomic<size_t> finished{0};

  void run() {
    while (true) {
      const size_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= items.size()) return;
      missing[index] = read_one(items[index]) ? 0 : 1;
      if (!missing[index]) done(index);
      if (finished.fetch_add(1, std::memory_order_release) + 1 == items.size()) {
        finished.notify_all();
      }
    }
  }

  [[nodiscard]] bool read_one(BatchItem& item) const noexcept {
    const bool has_target = !item.target.empty();
    try {
      if (!has_target) item.make_target(buffers);
    } catch (const std::bad_alloc&) {
      return false;  // where it is looked for next, that is an error
    }
    const SourceFile& file = shards.file_of(item.extent);
    if (!file.read_cached(item.extent.offset, item.target, item.trailer())) {
      if (!has_target) item.drop_target();
      return false;
    }
    counters.bytes_page_cache.fetch_add(item.extent.size, std::memory_order_relaxed);
    try {
      if (check) check_item(shards, item, counters);
    } catch (...) {
      item.error = std::current_exception();
    }
    return true;
  }

  void wait() const {
    for (size_t count = finished.load(std::memory_order_acquire); count < items.size();
         count = finished.load(std::memory_order_acquire)) {
      finished.wait(count, std::memory_order_acquire);
    }
  }
};

BatchReader::BatchReader(const ShardSet& shards, Counters& counters, size_t free_limit_bytes)
    : shards_(shards),
      counters_(counters),
      runtime_([free_limit_bytes] { return std::make_unique<Runtime>(free_limit_bytes); }) {}

BatchReader::~BatchReader() = default;

void BatchReader::read(std::span<BatchItem> items, bool check) {
  counters_.reads.fetch_add(items.size(), std::memory_order_relaxed);
  load(items, check, [](size_t) {});
  uint64_t served = 0;
  for (const BatchItem& item : items) served += item.error ? 0 : item.extent.size;
  counters_.bytes_served.fetch_add(served, std::memory_order_relaxed);
}

void BatchReader::load(std::span<BatchItem> items, bool check, const ItemDone& done) {
  std::vector<size_t> missing = read_cached(items, check, done);
  if (!missing.empty()) read_storage(items, std::move(missing), check, done);
}

void BatchReader::limit_free(size_t limit_bytes) {
  runtime_.get().buffers.limit_free(limit_bytes);
}

void BatchReader::call_helpers(const std::shared_ptr<CachedPass>& pass, size_t count) {
  try {
    for (size_t i = 0; i < count; ++i) runtime_.get().helpers.submit([pass] { pass->run(); });
  } catch (const std::system_error&) {
    // No threads to be had: then this one does it all.
  }
}

std::vector<size_t> BatchReader::read_cached(std::span<BatchItem> items, bool check,
                                             const ItemDone& done) {
  auto pass = std::make_shared<CachedPass>(shards_, counters_, items, check, done,
                                           runtime_.get().buffers);
  pass->missing.resize(items.size());
  uint64_t total = 0;
  for (const BatchItem& item : items) total += item.extent.size;
  if (items.size() > 1 && total >= kWorthSharingBytes) {
    call_helpers(pass, std::min(helper_count(), items.size() - 1));
  }
  pass->run();
  pass->wait();

  std::vector<size_t> missing;
  for (size_t i = 0; i < items.size(); ++i) {
    if (pass->missing[i]) missing.push_back(i);
  }
  return missing;
}

void BatchReader::read_storage(std::span<BatchItem> items, std::vector<size_t> missing,
                               bool check, const ItemDone& done) {
  auto queue = runtime_.get().take_queue();
  // Should this throw, the queue goes down with it, after what is in flight.
  StoragePass(shards_, counters_, *queue, runtime_.get().buffers, items, check, done)
      .run(std::move(missing));
  runtime_.get().return_queue(std::move(queue));
}

}  // namespace ffrfs
