#include "fuse/session.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>

#include "fuse/log.h"
#include "io/error.h"

namespace ffrfs {
namespace {

constexpr int kNoTimeout = -1;
constexpr int kWakeUp = SIGUSR1;
constexpr auto kWakeUpInterval = std::chrono::milliseconds(5);
constexpr auto kPushLimit = std::chrono::milliseconds(1000);

// Lets a signal end the read(2) in which a thread waits for a request.
void heed_wake_ups() {
  struct sigaction action {};
  action.sa_handler = [](int) {};  // no SA_RESTART
  sigaction(kWakeUp, &action, nullptr);
}

// What libfuse allocates for the first request and uses for all that follow.
struct RequestBuffer {
  fuse_buf buf{};
  RequestBuffer() = default;
  RequestBuffer(const RequestBuffer&) = delete;
  RequestBuffer& operator=(const RequestBuffer&) = delete;
  ~RequestBuffer() { free(buf.mem); }
};

}  // namespace

void Session::Destroy::operator()(fuse_session* session) const { fuse_session_destroy(session); }

Session::Session(Volume& volume, FileDescriptor connection, const SessionOptions& options)
    : volume_(volume),
      thread_count_(options.thread_count),
      // Of those who are turned away libfuse must see every open.
      operations_(volume, options.xattr, options.send_opens || options.allow_root) {
  fuse_args arguments = FUSE_ARGS_INIT(0, nullptr);
  fuse_opt_add_arg(&arguments, "ffrfs");
  if (options.allow_root) fuse_opt_add_arg(&arguments, "-oallow_root");
  session_.reset(fuse_session_new(&arguments, &Operations::table(), sizeof(fuse_lowlevel_ops),
                                  &operations_));
  fuse_opt_free_args(&arguments);
  if (!session_) throw StorageError(EINVAL, "libfuse", "cannot make a session");
  // libfuse takes a ready connection as this "mount point", and closes it at the end.
  const std::string place = "/dev/fd/" + std::to_string(connection.get());
  if (fuse_session_mount(session_.get(), place.c_str()) != 0) {
    throw StorageError(EINVAL, place, "not a connection of /dev/fuse");
  }
  [[maybe_unused]] const int taken = connection.release();
  // Here, before anybody else knows of us: hints may come before the first request.
  volume_.start_prefetch([this](Ino ino, uint64_t offset, std::span<const std::byte> bytes) {
    return push(ino, offset, bytes);
  });
}

Session::~Session() = default;

void Session::serve() {
  heed_wake_ups();
  std::thread completion([this] { complete(); });
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < thread_count_) others.emplace_back([this] { receive(); });
  } catch (const std::system_error& error) {
    log_line(Priority::kWarning, std::to_string(others.size() + 1) + " threads instead of " +
                                     std::to_string(thread_count_) + ": " + error.what());
  }
  receive();
  for (std::thread& thread : others) thread.join();
  // The kernel has ended the connection, or stop() has been here.
  const bool is_quiet = volume_.stop_prefetch(kPushLimit);
  ended_ = true;
  volume_.wake();
  completion.join();
  const std::lock_guard lock(mutex_);
  if (is_quiet) {
    session_.reset();  // closes the connection
  } else {
    [[maybe_unused]] fuse_session* const in_use = session_.release();  // the process ends, too
  }
}

void Session::receive() {
  RequestBuffer buffer;
  {
    const std::lock_guard lock(mutex_);
    receiving_.push_back(pthread_self());
  }
  while (fuse_session_exited(session_.get()) == 0 && turnstile_.enter()) {
    // Blocks; the kernel wakes one thread a request. 0: the connection has ended.
    const int size = fuse_session_receive_buf(session_.get(), &buffer.buf);
    turnstile_.leave();
    if (size == -EINTR) continue;
    if (size <= 0) break;
    fuse_session_process_buf(session_.get(), &buffer.buf);
  }
  turnstile_.close();
  const std::lock_guard lock(mutex_);
  std::erase(receiving_, pthread_self());
}

bool Session::push(Ino ino, uint64_t offset, std::span<const std::byte> bytes) {
  fuse_bufvec buffer = FUSE_BUFVEC_INIT(bytes.size());
  buffer.buf[0].mem = const_cast<std::byte*>(bytes.data());
  // -ENOENT: the kernel has never heard of the inode, or has forgotten it. Without splicing,
  // for which libfuse would need a pipe as large as the file.
  return fuse_lowlevel_notify_store(session_.get(), ino, static_cast<off_t>(offset), &buffer,
                                    FUSE_BUF_NO_SPLICE) == 0;
}

void Session::stop() {
  // While READs are still answered.
  [[maybe_unused]] const bool is_quiet = volume_.stop_prefetch(kPushLimit);
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (!session_) return;
      fuse_session_exit(session_.get());
      for (const pthread_t thread : receiving_) pthread_kill(thread, kWakeUp);
    }
    // Again: the signal may have come just before the thread began to wait.
    std::this_thread::sleep_for(kWakeUpInterval);
  }
}

void Session::complete() {
  while (!ended_) {
    volume_.wait(kNoTimeout);
    volume_.poll();
  }
}

}  // namespace ffrfs
