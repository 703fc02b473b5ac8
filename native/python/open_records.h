// The common part of Records and TFRecords: files of one kind, open until close().
//
// Everything here needs the GIL; blocking work is done without it.

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fetch/fetcher.h"
#include "io/error.h"
#include "io/process_local.h"
#include "python/convert.h"
#include "scrub/scrub.h"
#include "shard/shard_set.h"
#include "stats/counters.h"

namespace ffrfs::python {

// `File`: the type of all shards.
template <typename File> class OpenRecords {
 public:
  [[nodiscard]] uint64_t count() const { return open()->shards.count(); }

  [[nodiscard]] py::list counts() const {
    return of_each_file([](const File& file) { return file.count(); });
  }

  [[nodiscard]] py::array_t<int64_t> offsets(size_t shard) const {
    const auto open_now = open();
    const auto values = open_now->file(shard).offsets();
    return py::array_t<int64_t>(static_cast<py::ssize_t>(values.size()),
                                reinterpret_cast<const int64_t*>(values.data()));
  }

  template <typename Get> [[nodiscard]] py::list of_each_file(Get get) const {
    const auto open_now = open();
    py::list values;
    for (size_t i = 0; i < open_now->shards.shard_count(); ++i)
      values.append(get(open_now->file(i)));
    return values;
  }

  // See scrub_records().
  [[nodiscard]] py::list verify(uint64_t first, uint64_t count) const {
    const auto open_now = open();
    const auto bad = unlocked([&] { return scrub_records(open_now->fetcher.get(), first, count); });
    return to_list(bad);
  }

  // Waits for threads of the core, which must not wait for the GIL meanwhile.
  void close() {
    auto ended = std::exchange(open_, nullptr);
    unlocked([&] { ended.reset(); });
  }

 protected:
  struct Open {
    explicit Open(ShardSet opened) : shards(std::move(opened)) {}

    [[nodiscard]] const File& file(size_t index) const {
      if (index < shards.shard_count()) return static_cast<const File&>(shards.shard(index));
      throw RangeError("file " + std::to_string(index) + " does not exist: there are " +
                       std::to_string(shards.shard_count()));
    }

    ShardSet shards;
    Counters counters;
    ProcessLocal<Fetcher> fetcher{[this] { return std::make_unique<Fetcher>(shards, counters); }};
  };

  // `open_shards()` returns the ShardSet, whose shards are all Files.
  template <typename OpenShards> explicit OpenRecords(OpenShards open_shards) {
    const Unlocked unlocked;
    open_ = std::make_shared<Open>(open_shards());
  }

  // Every call holds the result while it runs, so that close() in another thread is harmless.
  [[nodiscard]] std::shared_ptr<Open> open() const {
    if (open_) return open_;
    throw py::value_error("the reader is closed");
  }

 private:
  std::shared_ptr<Open> open_;
};

}  // namespace ffrfs::python
