// native/fetch: an exception of a source becomes the error of the records that were requested.

#include "fetch/fetcher.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace ffrfs;

namespace {

// A source that cannot be reached, as in a child of fork() that gets no fetcher.
class Unreachable final : public Source {
 public:
  explicit Unreachable(bool ahead) : Source("x", {.size = uint64_t{64} << 20}), ahead_(ahead) {}

  [[nodiscard]] bool is_cached(uint64_t, size_t) const override { fail(); }
  [[nodiscard]] bool read_now(uint64_t, Parts) const override { fail(); }
  void read_fully(uint64_t, std::span<std::byte>) const override { fail(); }
  void will_need(uint64_t, size_t) const override { fail(); }
  [[nodiscard]] bool reads_ahead() const override { return ahead_; }

 private:
  [[noreturn]] void fail() const { throw StorageError(EMFILE, path(), "cannot be reached"); }

  const bool ahead_;
};

class Records final : public Shard {
 public:
  static constexpr uint64_t kSize = 256 << 10;
  using Shard::Shard;
  [[nodiscard]] uint64_t count() const override { return 32; }
  [[nodiscard]] Extent extent(uint64_t record) const override {
    return {.record = record, .offset = record * kSize, .size = kSize};
  }
  [[nodiscard]] uint64_t byte_count() const override { return count() * kSize; }
};

}  // namespace

TEST_CASE("each record gets the error of a source that cannot be reached") {
  for (const bool ahead : {false, true}) {
    CAPTURE(ahead);
    std::vector<std::unique_ptr<const Shard>> shards;
    shards.push_back(std::make_unique<Records>(std::make_shared<Unreachable>(ahead)));
    const ShardSet set(std::move(shards));
    Counters counters;
    Fetcher fetcher(set, counters);
    std::vector<std::byte> memory(set.byte_count());
    std::vector<BatchItem> items;
    for (uint64_t record = 0; record < set.count(); ++record) {
      items.push_back(
          {set.extent(record), std::span(memory).subspan(record * Records::kSize, Records::kSize)});
    }
    fetcher.read(items, true);
    std::atomic<size_t> wrong{0};
    for (const BatchItem& item : items) wrong += fields_of(item.error).code == EMFILE ? 0 : 1;
    CHECK(wrong == 0);
  }
}
