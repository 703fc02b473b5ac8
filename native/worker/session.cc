#include "worker/session.h"

#include <chrono>
#include <span>
#include <thread>
#include <utility>

namespace ffrfs {
namespace {

constexpr auto kWakeUpInterval = std::chrono::milliseconds(5);
constexpr auto kPushLimit = std::chrono::milliseconds(1000);

}  // namespace

Session::Session(Volume& volume, FileDescriptor connection, const SessionOptions& options,
                 std::unique_ptr<fuse::UringTransport> rings)
    : volume_(volume),
      thread_count_(options.thread_count),
      operations_(volume, options.operations),
      connection_(std::move(connection)),
      dev_(connection_, handler(options.suspects), fuse::Journal(volume.counters().page())),
      rings_(std::move(rings)) {
  volume_.counters().begin();
  // In the constructor, because hints may come before the first request.
  volume_.start_prefetch([this](Ino ino, uint64_t offset, std::span<const std::byte> bytes) {
    return connection_.store(ino, offset, bytes);
  });
}

Session::~Session() = default;

fuse::Handler& Session::handler(const std::vector<uint64_t>& suspects) {
  if (suspects.empty()) return operations_;
  return trial_.emplace(operations_, suspects, volume_.counters().on_trial,
                        operations_.interrupts());
}

bool Session::start() {
  fuse::Wishes wishes;
  if (rings_) {
    wishes.uring = true;
    wishes.pages_max = static_cast<uint16_t>(rings_->plan().payload_size / 4096);
  }
  const auto agreement = dev_.shake_hands(wishes);
  if (!agreement) return false;
  if (!agreement->can_do_without_opens) operations_.send_opens();
  if (agreement->uring) {
    rings_->start(connection_, operations_);
    volume_.counters().uring_queues = rings_->plan().queue_count();
  } else {
    rings_.reset();
  }
  return true;
}

void Session::serve() {
  std::thread completion([this] { complete(); });
  // Rings carry most requests, so that one thread is enough for the others.
  if (start()) dev_.serve(rings_ ? 1 : thread_count_);
  // The kernel has closed the connection, or stop() was called.
  const bool is_quiet = volume_.stop_prefetch(kPushLimit);
  if (rings_) rings_->stop();
  is_ended_ = true;
  volume_.wake();
  completion.join();
  operations_.close();
  rings_.reset();  // no answer can use the rings any more
  if (is_quiet) connection_.close();  // else the end of the process closes it
  is_over_ = true;
}

void Session::stop() {
  // Before the transports stop, because its reads need answers.
  [[maybe_unused]] const bool is_quiet = volume_.stop_prefetch(kPushLimit);
  while (!is_over_) {
    dev_.stop();
    std::this_thread::sleep_for(kWakeUpInterval);
  }
}

void Session::complete() {
  while (!is_ended_) {
    volume_.wait(operations_.expire_interrupts());
    volume_.poll();
  }
}

}  // namespace ffrfs
