// native/worker: what a process can still do behind the system call filter of a worker.
//
// Each act runs in a forked child, because a filter cannot be removed. The child's status tells
// whether the act worked, or with which errno it was refused.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fuse/ring.h"
#include "io/buffer.h"
#include "io/error.h"
#include "io/file_descriptor.h"
#include "io/local_file.h"
#include "io/read_queue.h"
#include "remote/cached_files.h"
#include "remote/link_message.h"
#include "scratch.h"
#include "test_fetcher.h"
#include "worker/syscall_filter.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

// The exit statuses of a child. Nothing else makes a child end with these.
constexpr int kNoFilter = 98;
constexpr int kThrew = 99;
constexpr int kDone = 100;  // plus the errno

using Act = std::function<int()>;

int refusal(bool is_well) { return is_well ? 0 : errno; }

// Runs `before` and then, behind the filter of that stage, `act`. Return the status from waitpid().
int outcome(Stage stage, const Act& act, const std::function<void()>& before = [] {}) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      before();
      if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || install_syscall_filter(stage) != 0) {
        _exit(kNoFilter);
      }
      _exit(kDone + act());
    } catch (...) {
      _exit(kThrew);
    }
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

void check_does(Stage stage, int expected, const Act& act,
                const std::function<void()>& before = [] {}) {
  const int status = outcome(stage, act, before);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == kDone + expected);
}

int open_with(const std::string& path, int flags) {
  return refusal(FileDescriptor(::open(path.c_str(), flags, 0600)).valid());
}

int read_through_queue(const Source& file, const Bytes& content, ReadPort::Aio aio) {
  BufferPool buffers(1 << 20);
  ReadQueue queue(buffers);
  ReadPort port(queue, aio);
  bool is_right = false;
  port.submit(file, 0, content.size(),
              [&](RawBytes raw) { is_right = !raw.error && text(raw.bytes) == content; });
  while (port.poll() == 0) port.wait(-1);
  return is_right ? 0 : EIO;
}

}  // namespace

TEST_CASE("a file that is open can be read, a thread at a time or asynchronously") {
  const TemporaryFolder folder;
  const Bytes content = pattern(300'000, 1);
  const LocalFile file(folder.write("f", content));
  using Aio = ReadPort::Aio;
  for (const Aio aio : {Aio::kNeverWaits, Aio::kMayWait, Aio::kNone}) {
    check_does(Stage::kServing, 0, [&] { return read_through_queue(file, content, aio); });
  }
  check_does(Stage::kServing, 0, [&] {
    Bytes found(content.size(), '\0');
    file.read_fully(0, std::as_writable_bytes(std::span(found)));
    return found == content ? 0 : EIO;
  });
}

TEST_CASE("a ring that was made before the filter can be used, by the thread that made it") {
  std::unique_ptr<fuse::Ring> ring;
  const auto make = [&ring] { ring = std::make_unique<fuse::Ring>(4, 8); };
  try {
    make();
  } catch (const StorageError&) {
    MESSAGE("this machine allows no rings");
    return;
  }
  check_does(Stage::kServing, 0, [&ring] {
    ring->next().opcode = IORING_OP_NOP;
    fuse::Ring::Completion found{.user_data = 0, .result = -1};
    ring->submit_and_wait();
    return !ring->has_unsubmitted() && ring->take(found) ? -found.result : EIO;
  }, make);
}

TEST_CASE("a link that was made before the filter still takes and brings messages") {
  int pair[2] = {-1, -1};
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
  TestObject object(pattern(5000, 1));
  check_does(Stage::kServing, 0, [&] {
    const remote::LinkSocket ours{FileDescriptor(pair[0])};
    if (ours.send(remote::make_message(remote::Ask::kCancel, 0, 1)) !=
        remote::LinkSocket::Sent::kYes) {
      return EIO;
    }
    send_message(pair[1], moved(), {object.data(), object.state()});
    std::vector<std::byte> memory(remote::LinkSocket::kMessageSizeMax);
    remote::Answer answer;
    if (ours.receive(memory, answer) != remote::LinkSocket::Got::kAnswer) return EPROTO;
    const remote::ObjectFacts facts{.size = 5000, .mtime_ns = 0, .block_size = kTestBlock};
    const remote::CachedFiles files(std::move(answer.data), std::move(answer.state), facts, "x");
    return files.has({.first = 0, .count = 1}) ? EIO : 0;
  });
  close(pair[0]);
  close(pair[1]);
}

TEST_CASE("no file can be opened while a mount is served") {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "bytes");
  for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR, O_PATH}) {
    check_does(Stage::kServing, EPERM, [&] { return open_with(path, flags); });
  }
  check_does(Stage::kServing, EPERM, [&] { return open_with(path + "2", O_CREAT | O_WRONLY); });
  check_does(Stage::kServing, ENOSYS, [&] { return refusal(unlink(path.c_str()) == 0); });
  check_does(Stage::kServing, ENOSYS,
             [&] { return refusal(rename(path.c_str(), (path + "2").c_str()) == 0); });
  CHECK(std::filesystem::exists(path));
  CHECK(!std::filesystem::exists(path + "2"));
}

TEST_CASE("while packs are opened files can be opened only for reading") {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "bytes");
  check_does(Stage::kOpening, 0, [&] { return open_with(path, O_RDONLY | O_CLOEXEC); });
  check_does(Stage::kOpening, 0, [&] {
    const std::filesystem::directory_iterator entries(folder / "");
    return std::distance(begin(entries), end(entries)) == 1 ? 0 : EIO;
  });
  for (const int flags : {O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC, O_RDONLY | O_CREAT}) {
    check_does(Stage::kOpening, EPERM, [&] { return open_with(path, flags); });
  }
  CHECK(std::filesystem::file_size(path) == 5);
}

TEST_CASE("the serving stage can follow the opening stage, and never the other way round") {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "bytes");
  check_does(Stage::kOpening, EPERM, [&] {
    return install_syscall_filter(Stage::kServing) == 0 ? open_with(path, O_RDONLY) : 0;
  });
  check_does(Stage::kServing, ENOSYS, [] { return install_syscall_filter(Stage::kOpening); });
}

TEST_CASE("threads can be started, and those that run already are behind the filter, too") {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "bytes");
  check_does(Stage::kServing, EPERM, [&] {
    int found = 0;
    std::thread([&] { found = open_with(path, O_RDONLY); }).join();
    return found;
  });
  std::atomic<bool> is_filtered = false;
  int found = 0;
  std::thread early;
  check_does(Stage::kServing, EPERM, [&] {
    is_filtered = true;
    early.join();
    return found;
  }, [&] {
    early = std::thread([&] {
      while (!is_filtered) std::this_thread::yield();
      found = open_with(path, O_RDONLY);
    });
  });
}

TEST_CASE("memory can be mapped for data, and never for code") {
  constexpr size_t kSize = 1 << 20;
  const auto map = [](int protection) {
    return mmap(nullptr, kSize, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  };
  check_does(Stage::kServing, 0,
             [&] { return refusal(map(PROT_READ | PROT_WRITE) != MAP_FAILED); });
  check_does(Stage::kServing, EPERM, [&] { return refusal(map(PROT_EXEC) != MAP_FAILED); });
  check_does(Stage::kServing, EPERM, [&] {
    void* const pages = map(PROT_READ);
    return refusal(mprotect(pages, kSize, PROT_READ | PROT_EXEC) == 0);
  });
}

TEST_CASE("a process can signal only itself") {
  const auto tgkill = [](pid_t process) {
    return refusal(syscall(SYS_tgkill, process, process, 0) == 0);
  };
  check_does(Stage::kServing, 0, [&] { return tgkill(getpid()); });
  check_does(Stage::kServing, EPERM, [&, parent = getpid()] { return tgkill(parent); });
  check_does(Stage::kServing, ENOSYS,
             [parent = getpid()] { return refusal(kill(parent, 0) == 0); });
  const int status = outcome(Stage::kServing, []() -> int { std::abort(); },
                             [] { std::signal(SIGABRT, SIG_DFL); });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}

TEST_CASE("system calls that no program makes by accident end the process") {
  const std::function<void()> acts[] = {
      [] { execl("/bin/true", "true", nullptr); },
      [] { (void)fork(); },
      [] { (void)socket(AF_UNIX, SOCK_STREAM, 0); },
      [] { (void)socket(AF_INET, SOCK_STREAM, 0); },
      [] { ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); },
      [] { syscall(SYS_unshare, 0); },
      [] { syscall(SYS_io_uring_setup, 1, nullptr); },
      [] { syscall(SYS_setuid, getuid()); },
  };
  for (const Stage stage : {Stage::kOpening, Stage::kServing}) {
    for (const auto& act : acts) {
      CAPTURE(&act - acts);
      const int status = outcome(stage, [&] {
        act();
        return 0;
      });
      CHECK(WIFSIGNALED(status));
      CHECK(WTERMSIG(status) == SIGSYS);
    }
  }
}
