// Files that are to become records, in order: the input of a FilePacker.
//
// Must be thread-safe.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ffrfs {

// Symbolic links on the way from the root to a file that may be passed: all, those that stay below
// the root, or none. They may have replaced directories that were listed.
enum class LinkRule : uint8_t { kFollow, kInside, kNone };

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

  // The directory at which all paths begin, and the rule for symbolic links below it.
  [[nodiscard]] virtual std::string root() const { return {}; }
  [[nodiscard]] virtual LinkRule link_rule() const { return LinkRule::kFollow; }
};

}  // namespace ffrfs
