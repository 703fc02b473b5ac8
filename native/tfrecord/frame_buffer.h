// Gathers records, framed for a file, in memory until they are written.
//
// Not thread-safe: the owner must lock.

#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "tfrecord/framing.h"

namespace ffrfs {

class FrameBuffer {
 public:
  // Larger records are not worth a copy.
  static constexpr size_t kRecordSizeMax = 64 << 10;

  explicit FrameBuffer(size_t capacity)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(capacity)), capacity_(capacity) {}

  // Returns false, and does nothing, if there is no room now, or never will be.
  [[nodiscard]] bool append(std::span<const std::byte> record) {
    if (record.size() > kRecordSizeMax || record.size() + kFramingSize > capacity_ - size_) {
      return false;
    }
    const auto frame = std::span(memory_.get() + size_, record.size() + kFramingSize);
    write_frame(record, frame);
    size_ += frame.size();
    return true;
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory_.get(), size_}; }
  void clear() { size_ = 0; }

 private:
  const std::unique_ptr<std::byte[]> memory_;
  const size_t capacity_;
  size_t size_ = 0;
};

}  // namespace ffrfs
