// A pack, opened with the mapped index that serves it, if there is a sound one.
//
// Immutable but for what it reads when it is first asked for: any number of threads.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "fetch/fetcher.h"
#include "open/pack.h"
#include "python/convert.h"
#include "stats/counters.h"
#include "volume/volume.h"

namespace ffrfs::python {

class PyPack {
 public:
  explicit PyPack(const std::string& path);
  // One of those that the volume has open, which must be FFRecord files.
  PyPack(const std::shared_ptr<Volume>& volume, size_t number);

  [[nodiscard]] bool is_folder() const;
  [[nodiscard]] uint64_t record_count() const { return shard_->count(); }
  // "pack": it carries the index; "sidecar"; "": there is none.
  [[nodiscard]] std::string index_kind() const;
  // None, or of the file that holds the index.
  [[nodiscard]] py::object index_path() const;
  [[nodiscard]] uint64_t index_size_bytes() const;
  // None, or what it says of the set of shards: (16 bytes, number, count).
  [[nodiscard]] py::object set() const;
  [[nodiscard]] py::str warning() const { return fs_text(shard_->warning()); }
  [[nodiscard]] py::str warning_within() const { return fs_text(shard_->warning_within()); }
  [[nodiscard]] bool is_index_stale() const { return shard_->is_index_stale(); }

  // What the header says, which is read and checked as a whole. FormatError.
  [[nodiscard]] bool header_verified() { return header_shard().metadata_verified(); }
  [[nodiscard]] py::array_t<int64_t> offsets();
  [[nodiscard]] uint64_t offset(uint64_t record);

  // Block, without the GIL. See index_check.h, scrub_records().
  [[nodiscard]] py::str find_fault();
  [[nodiscard]] py::list verify(uint64_t first, uint64_t count, size_t jobs);

  // The tree, for path_of(). FormatError, ChecksumError.
  void open_tree();
  // The path that shows a record, or None.
  [[nodiscard]] py::object path_of(uint64_t record);

 private:
  [[nodiscard]] const ShardSet& header();
  [[nodiscard]] const FfrecordShard& header_shard();
  [[nodiscard]] Fetcher& fetcher();
  [[nodiscard]] const Tree& tree();

  const std::shared_ptr<const Pack> own_;  // or the volume's
  const std::shared_ptr<const FfrecordShard> shard_;
  Counters counters_;
  std::mutex mutex_;  // guards what follows, while it is made
  std::optional<ShardSet> header_;
  std::unique_ptr<Fetcher> fetcher_;
  std::unique_ptr<const Tree> tree_;  // refers to the shard
};

}  // namespace ffrfs::python
