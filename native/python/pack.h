// A pack, opened with its mapped index, if there is a sound one.
//
// Immutable except for parts that are read when they are first needed. Thread-safe.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fetch/fetcher.h"
#include "open/pack.h"
#include "python/convert.h"
#include "stats/counters.h"
#include "volume/volume.h"

namespace ffrfs::python {

class PyPack {
 public:
  explicit PyPack(const std::string& path);
  // Uses a shard that the volume has open; its shards must be FFRecord files.
  PyPack(const std::shared_ptr<Volume>& volume, size_t number);

  [[nodiscard]] bool is_folder() const;
  [[nodiscard]] uint64_t record_count() const { return shard_->count(); }
  // Returns "pack" if the index is in the pack; "sidecar"; "" if there is none.
  [[nodiscard]] std::string index_kind() const;
  // Returns the path of the file that has the index, or None.
  [[nodiscard]] py::object index_path() const;
  [[nodiscard]] uint64_t index_size_bytes() const;
  // Returns the pack's set of shards (16 bytes, number, count), or None.
  [[nodiscard]] py::object set() const;
  [[nodiscard]] py::str warning() const { return fs_text(shard_->warning()); }
  [[nodiscard]] py::str warning_within() const { return fs_text(shard_->warning_within()); }
  [[nodiscard]] bool is_index_stale() const { return shard_->is_index_stale(); }

  // These read the header, and verify it as a whole. Throw FormatError.
  [[nodiscard]] bool header_verified() { return header_shard().metadata_verified(); }
  [[nodiscard]] py::array_t<int64_t> offsets();
  [[nodiscard]] uint64_t offset(uint64_t record);
  // Returns {count, sum, least, median, most} of the sizes of all records of `packs`; without the
  // last record of each if the packs are directories, because that is the index. Needs no NumPy.
  [[nodiscard]] static std::array<uint64_t, 5> size_summary(const std::vector<PyPack*>& packs,
                                                            bool are_folders);

  // These block, without the GIL. See index_check.h, scrub_records().
  [[nodiscard]] py::str find_fault();
  [[nodiscard]] py::list verify(uint64_t first, uint64_t count, size_t jobs);

  // Opens the tree, for path_of(). Throws FormatError, ChecksumError.
  void open_tree();
  // Returns a path of the record, or None.
  [[nodiscard]] py::object path_of(uint64_t record);

 private:
  [[nodiscard]] const ShardSet& header();
  [[nodiscard]] const FfrecordShard& header_shard();
  [[nodiscard]] Fetcher& fetcher();
  [[nodiscard]] const Tree& tree();

  const std::shared_ptr<const Pack> own_;  // null if the volume owns the shard
  const std::shared_ptr<const FfrecordShard> shard_;
  Counters counters_;
  std::mutex mutex_;  // guards the making of the members below
  std::optional<ShardSet> header_;
  std::unique_ptr<Fetcher> fetcher_;
  std::unique_ptr<const Tree> tree_;  // refers to the shard
};

}  // namespace ffrfs::python
