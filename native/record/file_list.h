// Files that are to become records, one after the other: what a FilePacker copies.
//
// Any number of threads may ask at a time.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ffrfs {

struct FileToPack {
  std::string path;
  uint64_t size = 0;  // as it was listed
  std::optional<int64_t> mtime_ns = std::nullopt;  // as it was listed, if that is known
};

class FileList {
 public:
  virtual ~FileList() = default;

  // For all numbers below count(). So paths are in memory while they are needed only.
  [[nodiscard]] virtual uint64_t count() const = 0;
  [[nodiscard]] virtual uint64_t size(uint64_t number) const = 0;
  [[nodiscard]] virtual FileToPack file(uint64_t number) const = 0;
};

}  // namespace ffrfs
