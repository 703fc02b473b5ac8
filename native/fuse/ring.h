// One io_uring with submissions of 128 bytes, as FUSE commands need them.
//
// Used by the thread that made it, and by no other: so the kernel can run completions in its
// calls, without interrupting it. Descriptors and memory are made in the constructor; after it
// io_uring_enter(2) is the only call.

#pragma once

#include <linux/io_uring.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/file_descriptor.h"

namespace ffrfs::fuse {

// Memory from mmap(2).
class Mapping {
 public:
  Mapping() = default;
  // Of `fd`; -1: of nothing, zeros that take no room until they are used. Throws StorageError.
  Mapping(size_t size, int fd, uint64_t offset);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

class Ring {
 public:
  struct Completion {
    uint64_t user_data;
    int result;  // a negative errno is a failure
  };

  // Throws StorageError.
  Ring(unsigned submissions, unsigned completions);
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // The next submission, all zeros. If there is no room, those before it go to the kernel.
  [[nodiscard]] io_uring_sqe& next();

  // Gives the kernel what next() was used for, and waits until something is completed.
  // 0, or an errno.
  [[nodiscard]] int submit_and_wait() { return enter(1); }

  // False: nothing is completed at the moment.
  [[nodiscard]] bool take(Completion& completion);

 private:
  [[nodiscard]] int enter(unsigned wanted);
  [[nodiscard]] unsigned* word(const Mapping& queue, unsigned offset) const;

  FileDescriptor descriptor_;
  Mapping submission_queue_;
  Mapping completion_queue_;
  Mapping submissions_;
  const io_uring_cqe* completions_ = nullptr;
  unsigned* submission_tail_ = nullptr;
  unsigned* submission_index_ = nullptr;
  unsigned* completion_head_ = nullptr;
  unsigned* completion_tail_ = nullptr;
  unsigned submission_count_ = 0;  // powers of two
  unsigned completion_count_ = 0;
  unsigned pending_ = 0;
};

}  // namespace ffrfs::fuse
