// Files that are to become records, in order: the input of a FilePacker.
//
// Must be thread-safe.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ffrfs {

struct FileToPack {
  std::string path;
  uint64_t size = 0;  // when it was listed
  std::optional<int64_t> mtime_ns = std::nullopt;  // when it was listed, if known
};

class FileList {
 public:
  virtual ~FileList() = default;

  // For all numbers below count(). Paths are in memory only while they are needed.
  [[nodiscard]] virtual uint64_t count() const = 0;
  [[nodiscard]] virtual uint64_t size(uint64_t number) const = 0;
  [[nodiscard]] virtual FileToPack file(uint64_t number) const = 0;
};

}  // namespace ffrfs
