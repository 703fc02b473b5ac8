#include "fuse/uring_transport.h"

#include <exception>
#include <future>
#include <string>
#include <utility>

#include "io/error.h"

namespace ffrfs::fuse {
namespace {

constexpr size_t kHelperCount = 4;

}  // namespace

class UringTransport::Thread {
 public:
  explicit Thread(const RingThread& plan) : plan_(plan) {}

  const RingThread plan_;
  std::unique_ptr<UringQueue> queue;
  std::promise<void> made;  // holds the error if creation failed
  std::thread thread;
};

UringTransport::UringTransport(const RingPlan& plan, const std::function<void()>& on_thread)
    : plan_(plan), helpers_(kHelperCount) {
  try {
    for (const RingThread& ring : plan_.threads) {
      threads_.push_back(std::make_unique<Thread>(ring));
      Thread& thread = *threads_.back();
      thread.thread = std::thread([this, &thread, on_thread] { run(thread, on_thread); });
      thread.made.get_future().get();
    }
  } catch (...) {
    stop();
    for (const auto& thread : threads_) {
      if (thread->thread.joinable()) thread->thread.join();
    }
    throw;
  }
}

UringTransport::~UringTransport() {
  stop();
  for (const auto& thread : threads_) thread->thread.join();
}

void UringTransport::run(Thread& thread, const std::function<void()>& on_thread) {
  try {
    thread.queue = std::make_unique<UringQueue>(thread.plan_, plan_, held_bytes_);
    on_thread();
  } catch (...) {
    thread.made.set_exception(std::current_exception());
    return;
  }
  thread.made.set_value();
  if (!wait_for_start()) return;
  thread.queue->run(connection_->fd(), *handler_,
                    [this](const Request& request, const Reply& reply) {
    try {
      helpers_.submit([this, request, reply] { handler_->handle(request, reply); });
    } catch (...) {  // out of memory, or of threads
      handler_->handle(request, reply);
    }
  });
}

bool UringTransport::wait_for_start() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_started_ || is_stopping_; });
  return !is_stopping_;
}

void UringTransport::start(const Connection& connection, Handler& handler) {
  const std::lock_guard lock(mutex_);
  connection_ = &connection;
  handler_ = &handler;
  is_started_ = true;
  changed_.notify_all();
}

void UringTransport::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  for (const auto& thread : threads_) {
    if (thread->queue) thread->queue->stop();
  }
}

}  // namespace ffrfs::fuse
