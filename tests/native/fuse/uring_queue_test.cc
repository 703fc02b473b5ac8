// native/fuse: answers over a ring whose kernel takes only some submissions, or none, as when
// memory is short. The test plays the kernel: it answers io_uring_setup(2) with a file in memory in
// place of a ring, and takes submissions in io_uring_enter(2).

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fuse/protocol.h"
#include "fuse/uring_queue.h"

using namespace ffrfs;
using namespace ffrfs::fuse;

namespace {

constexpr size_t kReadSize = 64 << 10;
constexpr uint64_t kInbox = 0;  // the user_data of the read that waits for other threads' answers

// The kernel's side of one ring, and of the entries registered in it.
class Kernel {
 public:
  // Called by io_uring_enter(2): takes submissions and returns how many, or a negative errno.
  std::function<long(unsigned count)> enter;
  // Called when a thread submits nothing and waits for a completion, at most for `limit`.
  std::function<void(std::chrono::nanoseconds limit)> wait = [](std::chrono::nanoseconds limit) {
    std::this_thread::sleep_for(limit);
  };

  Kernel() { current = this; }
  ~Kernel() {
    current = nullptr;
    munmap(memory_, kSize);
  }

  long set_up(unsigned submissions, io_uring_params& params) {
    params.sq_entries = submissions;
    params.sq_off.tail = 0;
    params.sq_off.array = 64;
    params.cq_off.head = 0;
    params.cq_off.tail = 4;
    params.cq_off.cqes = 64;
    submission_count_ = submissions;
    completion_count_ = params.cq_entries;
    const int fd = memfd_create("ring", MFD_CLOEXEC);
    REQUIRE(ftruncate(fd, kSize) == 0);
    void* const memory =
        mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    REQUIRE(memory != MAP_FAILED);
    memory_ = static_cast<std::byte*>(memory);
    return fd;
  }

  // Return the next submission.
  io_uring_sqe take() {
    const auto* const places = reinterpret_cast<const unsigned*>(memory_ + IORING_OFF_SQ_RING + 64);
    const unsigned place = places[taken_++ & (submission_count_ - 1)];
    io_uring_sqe found{};
    std::memcpy(&found, memory_ + IORING_OFF_SQES + place * kSubmissionSize, sizeof found);
    return found;
  }

  void complete(uint64_t user_data, int result) {
    auto* const tail = reinterpret_cast<unsigned*>(memory_ + IORING_OFF_CQ_RING + 4);
    const io_uring_cqe done{.user_data = user_data, .res = result, .flags = 0};
    std::byte* const all = memory_ + IORING_OFF_CQ_RING + 64;
    std::memcpy(all + (*tail & (completion_count_ - 1)) * sizeof done, &done, sizeof done);
    std::atomic_ref(*tail).store(*tail + 1, std::memory_order_release);
  }

  static inline Kernel* current = nullptr;

 private:
  static constexpr size_t kSubmissionSize = 128;
  static constexpr size_t kSize = IORING_OFF_SQES + (1 << 16);

  std::byte* memory_ = nullptr;
  unsigned submission_count_ = 0;
  unsigned completion_count_ = 0;
  unsigned taken_ = 0;
};

}  // namespace

// Replaces libc's syscall(), which takes its words from registers and the stack, however many the
// caller passed. va_arg is not possible here, as it must not read more words than were passed.
extern "C" long given_syscall(long number, long a, long b, long c, long d, long e, long f) noexcept
    __asm__("syscall");

long given_syscall(long number, long a, long b, long c, long d, long e, long f) noexcept {
  Kernel* const kernel = Kernel::current;
  if (kernel != nullptr && number == SYS_io_uring_setup) {
    return kernel->set_up(static_cast<unsigned>(a), *reinterpret_cast<io_uring_params*>(b));
  }
  if (kernel != nullptr && number == SYS_io_uring_enter && (d & IORING_ENTER_EXT_ARG) != 0) {
    const auto& given = *reinterpret_cast<const io_uring_getevents_arg*>(e);
    const auto& limit = *reinterpret_cast<const __kernel_timespec*>(given.ts);
    REQUIRE((b == 0 && f == sizeof given && limit.tv_sec == 0));
    kernel->wait(std::chrono::nanoseconds(limit.tv_nsec));
    return 0;
  }
  if (kernel != nullptr && number == SYS_io_uring_enter) {
    const long taken = kernel->enter(static_cast<unsigned>(b));
    if (taken < 0) errno = static_cast<int>(-taken);
    return taken < 0 ? -1 : taken;
  }
  static const auto real = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
  return real(number, a, b, c, d, e, f);
}

namespace {

// Where the kernel writes a request and reads its answer; the queue has registered both.
struct Place {
  RingHeader* header;
  const std::byte* payload;
};

std::string bytes_for(uint64_t unique) { return std::string(kReadSize, static_cast<char>(unique)); }

// Answers each READ at once, except kLate.
struct Reader final : Handler {
  static constexpr uint64_t kLate = 3;
  std::optional<Reply> late;

  static void answer(const Reply& reply) {
    const std::string body = bytes_for(reply.unique());
    reply.bytes(std::as_bytes(std::span(body)));
  }
  void handle(const Request& request, const Reply& reply) noexcept override {
    REQUIRE(request.opcode == Opcode::kRead);
    if (request.unique == kLate) {
      late = reply;
    } else {
      answer(reply);
    }
  }
};

// A kernel with a queue of two entries that may keep no memory.
struct Served {
  Kernel kernel;
  std::map<uint64_t, Place> places;  // by user_data
  std::vector<uint64_t> idle;
  std::vector<std::string> answers;

  // Takes `count` submissions.
  long take(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      const io_uring_sqe found = kernel.take();
      if (found.user_data == kInbox) continue;
      if (found.cmd_op == kRegister) {
        const auto* const parts = reinterpret_cast<const iovec*>(found.addr);
        places[found.user_data] = {static_cast<RingHeader*>(parts[0].iov_base),
                                   static_cast<const std::byte*>(parts[1].iov_base)};
      } else {
        const Place& place = places.at(found.user_data);
        answers.emplace_back(reinterpret_cast<const char*>(place.payload),
                             place.header->payload_size);
      }
      idle.push_back(found.user_data);
    }
    return count;
  }

  // Gives a READ to the entry that has been idle longest.
  void request(uint64_t unique) {
    const uint64_t entry = idle.front();
    idle.erase(idle.begin());
    RingHeader& header = *places.at(entry).header;
    InHeader in{};
    in.len = sizeof(InHeader) + sizeof(ReadIn);
    in.opcode = static_cast<uint32_t>(Opcode::kRead);
    in.unique = unique;
    in.nodeid = 1;
    ReadIn read{};
    read.size = kReadSize;
    std::memcpy(header.in_out, &in, sizeof in);
    std::memcpy(header.op_in, &read, sizeof read);
    header.payload_size = 0;
    kernel.complete(entry, 0);
  }
};

}  // namespace

TEST_CASE("memory of answers is not released, nor reused, before the kernel has taken them") {
  Served served;
  Reader reader;
  std::atomic<size_t> held = 0;
  const RingPlan plan{.threads = {{.cpu = -1, .queues = {0}}},
                      .payload_size = kReadSize,
                      .depth = 2,
                      .limit_bytes = 0};
  UringQueue queue(plan.threads[0], plan, held);
  int calls = 0;
  served.kernel.enter = [&](unsigned count) -> long {
    switch (++calls) {
      case 1:  // the queue has registered two entries
        served.take(count);
        served.request(1);
        served.request(2);
        return count;
      case 2:  // both are answered; the kernel takes nothing
        CHECK(count == 2);
        return -EAGAIN;
      case 3: CHECK(count == 2); return -EBUSY;
      case 4:  // the kernel takes only the first, and gives its entry another request
        CHECK(count == 2);
        served.take(1);
        served.request(Reader::kLate);
        return 1;
      case 5:  // the kernel takes the second, while a thread answers that request
        CHECK(count == 1);
        served.take(1);
        std::thread([&] { Reader::answer(*reader.late); }).join();
        served.kernel.complete(kInbox, sizeof(uint64_t));
        return 1;
      case 6: served.take(count); return count;
      default:  // the memory of taken answers is released
        CHECK(held == 0);
        served.take(count);
        served.kernel.complete(served.idle.front(), -ENOTCONN);
        return count;
    }
  };
  queue.run(-1, reader, [](const Request&, const Reply&) { FAIL("no READ is large"); });
  CHECK(calls >= 6);
  CHECK(served.answers == std::vector{bytes_for(1), bytes_for(2), bytes_for(Reader::kLate)});
}

TEST_CASE("a full ring overwrites no entry that the kernel has not taken") {
  constexpr uint64_t kCount = 1000;
  Kernel kernel;
  Ring ring(256, 1024);
  std::vector<uint64_t> taken;
  unsigned calls = 0;
  kernel.enter = [&](unsigned count) -> long {
    constexpr long kRefusals[] = {-EAGAIN, -EINTR, -EBUSY};
    if (++calls % 4 != 0) return kRefusals[calls % 4 - 1];
    const unsigned part = std::min(count, 100U);
    for (unsigned i = 0; i < part; ++i) taken.push_back(kernel.take().user_data);
    return part;
  };
  std::vector<uint64_t> all;
  for (uint64_t number = 0; number < kCount; ++number) {
    ring.next().user_data = number;
    all.push_back(number);
  }
  while (ring.has_unsubmitted()) ring.submit_and_wait();
  CHECK(taken == all);
}

TEST_CASE("a thread whose entries the kernel refuses submits them again now and then") {
  Kernel kernel;
  Ring ring(8, 16);
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  int refusals = 0;
  kernel.enter = [&](unsigned count) -> long {
    if (std::chrono::steady_clock::now() < end) return ++refusals, -EAGAIN;
    return count;
  };
  ring.next().user_data = 1;
  while (ring.has_unsubmitted()) ring.submit_and_wait();
  CHECK((0 < refusals && refusals < 1000));
  for (uint64_t number = 0; number < 8; ++number) ring.next().user_data = number;
  end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  refusals = 0;
  ring.next().user_data = 8;  // waits, as the ring is full
  CHECK((0 < refusals && refusals < 1000));
}

TEST_CASE("a request that comes while the kernel refuses an answer is not held up") {
  Kernel kernel;
  Ring ring(8, 16);
  kernel.enter = [](unsigned) -> long { return -EAGAIN; };
  kernel.wait = [&](std::chrono::nanoseconds) { kernel.complete(5, 0); };
  ring.next().user_data = 1;
  Ring::Completion found{};
  CHECK_FALSE(ring.take(found));
  ring.submit_and_wait();
  CHECK((ring.take(found) && found.user_data == 5));
  CHECK(ring.has_unsubmitted());
}

TEST_CASE("a lasting error ends the process, with a message that says why") {
  Kernel kernel;
  Ring ring(2, 4);
  kernel.enter = [](unsigned) -> long { return -EBADF; };
  int ends[2] = {-1, -1};
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    for (uint64_t number = 0; number < 3; ++number) ring.next().user_data = number;
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
  char line[200] = {};
  CHECK(read(ends[0], line, sizeof line - 1) > 0);
  CHECK(std::string(line).find("io_uring: Bad file descriptor") != std::string::npos);
  close(ends[0]);
  close(ends[1]);
}
