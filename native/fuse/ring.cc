#include "fuse/ring.h"

#include <linux/time_types.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "fuse/log.h"
#include "io/error.h"

namespace ffrfs::fuse {
namespace {

constexpr size_t kSubmissionSize = 128;
constexpr long long kPauseNs = 1'000'000;  // at most, before refused entries are submitted again

// Wraps a word that the kernel reads or writes in another thread.
std::atomic_ref<unsigned> shared(unsigned* word) { return std::atomic_ref(*word); }

// Returns advice for ENOMEM: rings count as their user's locked memory.
std::string advice(int error) {
  rlimit limit{};
  if (error != ENOMEM || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return "";
  return ": all rings of a user may lock " + std::to_string(limit.rlim_cur >> 10) +
         " KiB here; raise that limit (ulimit -l, or LimitMEMLOCK= of a service)";
}

}  // namespace

Mapping::Mapping(size_t size, int fd, uint64_t offset) : size_(size) {
  const int flags =
      fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED | MAP_POPULATE;
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) throw StorageError(errno, "", "cannot map memory for io_uring");
  data_ = static_cast<std::byte*>(memory);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

Ring::Ring(unsigned submissions, unsigned completions) {
  io_uring_params params{};
  params.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER |
                 IORING_SETUP_COOP_TASKRUN | IORING_SETUP_DEFER_TASKRUN;
  params.cq_entries = completions;
  const long fd = syscall(SYS_io_uring_setup, submissions, &params);
  if (fd < 0) throw StorageError(errno, "", "cannot make a ring of io_uring" + advice(errno));
  descriptor_ = FileDescriptor(static_cast<int>(fd));
  submission_count_ = params.sq_entries;
  completion_count_ = params.cq_entries;
  submission_queue_ = Mapping(params.sq_off.array + submission_count_ * sizeof(unsigned),
                              descriptor_.get(), IORING_OFF_SQ_RING);
  completion_queue_ = Mapping(params.cq_off.cqes + completion_count_ * sizeof(io_uring_cqe),
                              descriptor_.get(), IORING_OFF_CQ_RING);
  submissions_ = Mapping(submission_count_ * kSubmissionSize, descriptor_.get(), IORING_OFF_SQES);
  submission_tail_ = word(submission_queue_, params.sq_off.tail);
  submission_index_ = word(submission_queue_, params.sq_off.array);
  completion_head_ = word(completion_queue_, params.cq_off.head);
  completion_tail_ = word(completion_queue_, params.cq_off.tail);
  completions_ =
      reinterpret_cast<const io_uring_cqe*>(completion_queue_.data() + params.cq_off.cqes);
}

unsigned* Ring::word(const Mapping& queue, unsigned offset) const {
  return reinterpret_cast<unsigned*>(queue.data() + offset);
}

io_uring_sqe& Ring::next() {
  // A submission that the kernel has not taken must not be overwritten: it may hold an answer.
  while (pending_ == submission_count_) enter(0);
  const unsigned tail = *submission_tail_;  // only this thread writes it
  const unsigned slot = tail & (submission_count_ - 1);
  std::byte* const place = submissions_.data() + slot * kSubmissionSize;
  std::memset(place, 0, kSubmissionSize);
  submission_index_[slot] = slot;
  // The kernel reads the entry in enter(), on this thread.
  shared(submission_tail_).store(tail + 1, std::memory_order_release);
  ++pending_;
  return *reinterpret_cast<io_uring_sqe*>(place);
}

void Ring::enter(unsigned wanted) {
  const long taken = syscall(SYS_io_uring_enter, descriptor_.get(), pending_, wanted,
                             IORING_ENTER_GETEVENTS, nullptr, 0);
  if (taken >= 0) {
    pending_ -= static_cast<unsigned>(taken);
  } else if (errno == EAGAIN || errno == EBUSY) {
    // If the caller waits for completions, the next one ends the pause; otherwise the pause lasts
    // its full time.
    pause(wanted > 0 ? wanted : completion_count_);
  } else if (errno != EINTR) {
    // The kernel would leave the requests of this CPU in the ring. When the process has ended,
    // the daemon ends the connection, and they fail.
    log_line(Priority::kError, "io_uring: " + std::generic_category().message(errno));
    std::abort();
  }
}

// Waits a moment: otherwise a thread would try again and again while memory is short.
void Ring::pause(unsigned wanted) {
  const __kernel_timespec limit{.tv_sec = 0, .tv_nsec = kPauseNs};
  io_uring_getevents_arg given{};
  given.ts = reinterpret_cast<uint64_t>(&limit);
  // The result does not matter: the caller tries again.
  syscall(SYS_io_uring_enter, descriptor_.get(), 0, wanted,
          IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &given, sizeof given);
}

bool Ring::take(Completion& completion) {
  const unsigned head = *completion_head_;
  if (head == shared(completion_tail_).load(std::memory_order_acquire)) return false;
  const io_uring_cqe& found = completions_[head & (completion_count_ - 1)];
  completion = {.user_data = found.user_data, .result = found.res};
  shared(completion_head_).store(head + 1, std::memory_order_release);
  return true;
}

}  // namespace ffrfs::fuse
