// The folders of the records of a TFRecord file: made of a record's bytes when it is first
// looked into, kept while there is room, and made again when they are asked for again.
//
//   find()   kept? ──► folder, or nullptr
//   get()    kept ─► record at hand: made at once ─► nullptr: poll() calls `done`
//
// Any thread. Callbacks run in poll(). A record is read once however many ask; whoever
// holds a folder may use it when it is kept no longer.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shard/shard_set.h"
#include "tree/example_folder.h"
#include "tree/example_tree.h"
#include "volume/file_reads.h"

namespace ffrfs {

using FolderPtr = std::shared_ptr<const ExampleFolder>;

class FolderCache {
 public:
  using Done = std::function<void(FolderPtr, std::exception_ptr)>;

  // `limit_bytes`: of all folders that are kept, but for the one that was asked for last.
  FolderCache(const ShardSet& shards, const ExampleTree& tree, FileReads& reads,
              const ExampleOptions& options, size_t limit_bytes);

  // nullptr: it is not kept.
  [[nodiscard]] FolderPtr find(uint64_t record);

  // nullptr: it comes through `done`. Never waits for the disk. Throws ChecksumError.
  // `record` must exist.
  [[nodiscard]] FolderPtr get(uint64_t record, Done done);

  // Of the record's bytes, which were read ahead.
  [[nodiscard]] FolderPtr make_of(uint64_t record, std::span<const std::byte> bytes);

  // Folders beyond the new limit are dropped.
  void set_limit(size_t limit_bytes);

 private:
  using Order = std::list<std::pair<uint64_t, FolderPtr>>;  // most recent first

  [[nodiscard]] FolderPtr find_locked(uint64_t record);
  [[nodiscard]] FolderPtr make(uint64_t record, Done done);
  void finish(uint64_t record, const FolderPtr& folder, const std::exception_ptr& error);
  void keep(uint64_t record, const FolderPtr& folder);
  void drop_oldest();

  const ShardSet& shards_;
  const ExampleTree& tree_;
  FileReads& reads_;
  const ExampleOptions options_;
  std::mutex mutex_;  // guards all below
  size_t limit_bytes_;
  Order order_;
  std::unordered_map<uint64_t, Order::iterator> entries_;
  size_t kept_bytes_ = 0;
  std::unordered_map<uint64_t, std::vector<Done>> making_;  // those who came second wait
};

}  // namespace ffrfs
