// native/volume: no memory for a record's directory: everyone who waits for it gets the error, and
// the next one who asks gets the directory.

#include <doctest/doctest.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frames.h"
#include "io/local_file.h"
#include "page_cache.h"
#include "tfrecord/tfrecord_shard.h"
#include "tree/subtrees.h"
#include "tree/tree.h"
#include "volume/subtree_cache.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

thread_local bool is_out_of_memory = false;

}  // namespace

void* operator new(size_t size) {
  void* memory = is_out_of_memory ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

// An empty directory that can say its size only if there is memory.
struct HeavyTree final : Tree {
  explicit HeavyTree(const bool& short_of_memory) : is_short(short_of_memory) {}
  [[nodiscard]] std::optional<Inode> inode(Ino) const override { return std::nullopt; }
  [[nodiscard]] Ino lookup(Ino, std::string_view) const override { return 0; }
  [[nodiscard]] std::vector<Dentry> list(Ino, uint64_t, uint64_t) const override { return {}; }
  [[nodiscard]] std::vector<Dentry> subdirectories(Ino, uint64_t, uint64_t) const override {
    return {};
  }
  [[nodiscard]] std::string name(Ino) const override { return {}; }
  [[nodiscard]] Ino file_of(uint64_t) const override { return 0; }
  [[nodiscard]] uint64_t file_count() const override { return 0; }
  [[nodiscard]] uint64_t directory_count() const override { return 1; }
  [[nodiscard]] uint64_t memory_bytes() const override {
    if (is_short) throw std::bad_alloc();
    return sizeof *this;
  }
  const bool& is_short;
};

struct HeavyTrees final : Subtrees {
  [[nodiscard]] std::optional<uint64_t> record_of(Ino) const override { return 0; }
  [[nodiscard]] Ino top(uint64_t) const override { return kRootIno; }
  [[nodiscard]] std::unique_ptr<const Tree> make(uint64_t,
                                                 std::span<const std::byte>) const override {
    if (meanwhile) meanwhile();
    return std::make_unique<HeavyTree>(is_short);
  }
  [[nodiscard]] std::unique_ptr<const Tree> make_opaque(uint64_t, uint64_t) const override {
    return std::make_unique<HeavyTree>(is_short);
  }
  bool is_short = true;
  std::function<void()> meanwhile{};
};

struct HeavyRecords {
  TemporaryFolder folder;
  std::string path = folder.write("data.tfrecord", framed({"a record"}));
  ShardSet shards = open_tfrecord_shards({path}, false, open_local_file);
  Counters counters;
  FileReads reads{shards, counters, size_t{64} << 20, true};
  HeavyTrees trees;
  SubtreeCache cache{shards, trees, reads};
};

void ignore(const TreePtr&, const std::exception_ptr&) {}

}  // namespace

TEST_CASE("a directory that could not be made for lack of memory can be made later") {
  HeavyRecords records;
  for (int again = 0; again < 2; ++again) {
    CHECK_THROWS_AS((void)records.cache.get(0, ignore), std::bad_alloc);
    CHECK(records.counters.queue_depth == 0);
  }
  records.trees.is_short = false;
  CHECK(records.cache.get(0, ignore));
}

TEST_CASE("all that wait for a directory get the error if there is no memory for it") {
  HeavyRecords records;
  drop_cached_pages(records.path);
  int refused = 0;
  const auto refuse = [&](const TreePtr& tree, const std::exception_ptr& error) {
    CHECK_FALSE(tree);
    CHECK_THROWS_AS(std::rethrow_exception(error), std::bad_alloc);
    ++refused;
  };
  for (int i = 0; i < 3; ++i) CHECK_FALSE(records.cache.get(0, refuse));
  while (records.counters.queue_depth > 0) {
    records.reads.wait(10'000);
    records.reads.poll();
  }
  CHECK(refused == 3);
  records.trees.is_short = false;
  CHECK(records.cache.get(0, ignore));
}

TEST_CASE("requests that come while a directory is made get its error, even without memory") {
  HeavyRecords records;
  int refused = 0;
  records.trees.meanwhile = [&] {
    for (int i = 0; i < 2; ++i) {
      CHECK_FALSE(records.cache.get(0, [&](const TreePtr& tree, const std::exception_ptr& error) {
        refused += !tree && error ? 1 : 0;
      }));
    }
    is_out_of_memory = true;
  };
  bool is_refused = false;
  try {
    (void)records.cache.get(0, ignore);
  } catch (const std::bad_alloc&) {
    is_refused = true;
  }
  is_out_of_memory = false;
  records.trees.meanwhile = nullptr;
  records.trees.is_short = false;
  CHECK(is_refused);
  CHECK(refused == 2);
  CHECK(records.cache.get(0, ignore));
}
