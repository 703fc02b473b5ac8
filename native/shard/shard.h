// One file of records, opened for reading: the number of records, and the extent of each. An
// FFRecord file (record/) or a TFRecord file (tfrecord/).
//
// Immutable after opening, and thread-safe.
// Not here: the records' bytes and the check of their checksums (record_checksum.h).

#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "io/source.h"
#include "shard/extent.h"

namespace ffrfs {

class Shard {
 public:
  explicit Shard(std::shared_ptr<const Source> file) : file_(std::move(file)) {}
  virtual ~Shard() = default;
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  [[nodiscard]] const Source& file() const { return *file_; }
  [[nodiscard]] const std::shared_ptr<const Source>& shared_file() const { return file_; }

  [[nodiscard]] virtual uint64_t count() const = 0;

  // Returns the extent of a record below count(). Leaves Extent::shard at 0. Tables that were not
  // read at opening may turn out to be damaged: throws FormatError, ChecksumError, StorageError.
  [[nodiscard]] virtual Extent extent(uint64_t record) const = 0;

  // Returns the CRC-32C of each 1 MiB of `record` (the last may be shorter); empty if none are
  // known. Throws as extent() does.
  [[nodiscard]] virtual std::vector<uint32_t> chunk_checksums(uint64_t) const { return {}; }

  // Returns the size of all records together.
  [[nodiscard]] virtual uint64_t byte_count() const = 0;

  // Returns false if the file has no checksum of its tables.
  [[nodiscard]] virtual bool metadata_verified() const { return true; }

 private:
  std::shared_ptr<const Source> file_;
};

}  // namespace ffrfs
