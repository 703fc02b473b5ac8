// A pack opened with the mapped index that serves it, if there is a sound one.
//
// Immutable: any number of threads.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "python/convert.h"
#include "record/ffrecord_shard.h"

namespace ffrfs::python {

class PackIndex {
 public:
  explicit PackIndex(const std::string& path);

  [[nodiscard]] bool is_folder() const { return is_folder_; }
  [[nodiscard]] uint64_t record_count() const { return shard_->count(); }
  // "pack": it carries the index; "sidecar"; "": there is none.
  [[nodiscard]] std::string kind() const;
  // None, or of the file that holds the index.
  [[nodiscard]] py::object path() const;
  [[nodiscard]] uint64_t size_bytes() const;
  // None, or what it says of the set of shards: (16 bytes, number, count).
  [[nodiscard]] py::object set() const;
  [[nodiscard]] py::str warning() const { return fs_text(shard_->warning()); }
  [[nodiscard]] py::str warning_within() const { return fs_text(shard_->warning_within()); }
  [[nodiscard]] bool is_stale() const { return shard_->is_index_stale(); }

  // Blocks, without the GIL. See index_check.h.
  [[nodiscard]] std::string find_fault() const;
  // Empty also where the index is damaged.
  [[nodiscard]] std::vector<uint32_t> chunk_checksums(uint64_t record) const noexcept;

 private:
  std::unique_ptr<const FfrecordShard> shard_;
  bool is_folder_ = false;
};

}  // namespace ffrfs::python
