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
      dev_(connection_, operations_),
      rings_(std::move(rings)) {
  // Here, before anybody else knows of us: hints may come before the first request.
  volume_.start_prefetch([this](Ino ino, uint64_t offset, std::span<const std::byte> bytes) {
    return connection_.store(ino, offset, bytes);
  });
}

Session::~Session() = default;

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
  // Beside rings one thread is enough for what they do not carry.
  if (start()) dev_.serve(rings_ ? 1 : thread_count_);
  // The kernel has ended the connection, or stop() has been here.
  const bool is_quiet = volume_.stop_prefetch(kPushLimit);
  if (rings_) rings_->stop();
  is_ended_ = true;
  volume_.wake();
  completion.join();
  operations_.close();
  rings_.reset();  // now that no answer is on its way there
  if (is_quiet) connection_.close();  // else the process ends, too
  is_over_ = true;
}

void Session::stop() {
  // While READs are still answered.
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
