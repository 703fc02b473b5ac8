// One io_uring with submissions of 128 bytes, as FUSE commands need them.
//
// Only the thread that created it may use it: so the kernel can run completions in its calls,
// without interrupting it. The constructor creates all descriptors and mappings; after it,
// io_uring_enter(2) is the only system call.

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
  // Maps `fd`; -1: zeros that take no memory until they are used. Throws StorageError.
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

  // Returns the next submission, all zeros. If there is no room, submits those before it.
  [[nodiscard]] io_uring_sqe& next();

  // Submits what next() returned, and waits for a completion. If memory is short or a signal comes,
  // submits only a part, or nothing: has_unsubmitted(). Short of memory, pauses before it returns.
  // Other errors end the process.
  void submit_and_wait() { enter(1); }
  [[nodiscard]] bool has_unsubmitted() const { return pending_ > 0; }

  // Returns false if there is no completion now.
  [[nodiscard]] bool take(Completion& completion);

 private:
  void enter(unsigned wanted);
  void pause(unsigned wanted);
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
  unsigned pending_ = 0;  // returned by next(), and not taken by the kernel
};

}  // namespace ffrfs::fuse
