// A stream of bytes that must be read once, from the front. The index parser reads it, so that an
// index of any size costs one small window of memory.

#pragma once

#include <cstddef>
#include <span>

namespace ffrfs {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Returns the next bytes, at least one; empty at the end. Valid until the next call. Throws
  // StorageError.
  [[nodiscard]] virtual std::span<const std::byte> next() = 0;
};

}  // namespace ffrfs
