// The folders of the records of a TFRecord file: made of a record's bytes when it is first
// looked into, kept while there is room, and made again when they are asked for again.
//
//   find()   kept? ──► folder, or nullptr
//   get()    kept ─► record at hand: made at once ─► nullptr: poll() calls `done`
//
// Any thread. Callbacks run in poll(). A record is read once however many ask; those who
// hold a folder may use it when it is kept no longer. Which are kept, or being made, is in the
// table of units.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>

#include "example/example_folder.h"
#include "example/example_tree.h"
#include "fetch/unit.h"
#include "fetch/unit_table.h"
#include "shard/shard_set.h"
#include "volume/file_reads.h"

namespace ffrfs {

using FolderPtr = std::shared_ptr<const ExampleFolder>;

class FolderCache {
 public:
  using Done = std::function<void(FolderPtr, std::exception_ptr)>;

  FolderCache(const ShardSet& shards, const ExampleTree& tree, FileReads& reads,
              const ExampleOptions& options);

  // nullptr: it is not kept.
  [[nodiscard]] FolderPtr find(uint64_t record);

  // nullptr: it comes through `done`. Never waits for the disk. Throws ChecksumError.
  // `record` must exist.
  [[nodiscard]] FolderPtr get(uint64_t record, Done done);

  // Of the record's bytes, which were read ahead.
  [[nodiscard]] FolderPtr make_of(uint64_t record, std::span<const std::byte> bytes);

 private:
  struct HeldFolder;

  // A number of all records, so that no shard has to be looked up.
  [[nodiscard]] static UnitKey key_of(uint64_t record) { return {0, record, UnitKind::kFolder}; }
  [[nodiscard]] FolderPtr make(uint64_t record);
  [[nodiscard]] HeldPtr hold(const FolderPtr& folder);

  const ShardSet& shards_;
  const ExampleTree& tree_;
  FileReads& reads_;
  const ExampleOptions options_;
};

}  // namespace ffrfs
