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
  ended_ = true;
  volume_.wake();
  completion.join();
  const std::lock_guard lock(mutex_);
  session_.reset();  // closes the connection
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

void Session::stop() {
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
