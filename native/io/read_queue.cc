#include "io/read_queue.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "io/error.h"

namespace ffrfs {

struct ReadPort::Operation {
  iocb control{};  // the kernel's handle; `data` points back here
  const Source* file = nullptr;
  bool is_direct = false;
  DirectRead direct;
  uint64_t offset = 0;
  size_t size = 0;
  // The range extended to multiples of the alignment, for O_DIRECT.
  uint64_t aligned_offset = 0;
  size_t aligned_size = 0;
  Buffer buffer;
  Done done;
  bool refused = false;  // AIO refused or came short: to be read by a thread
  std::exception_ptr error;

  [[nodiscard]] size_t head() const { return static_cast<size_t>(offset - aligned_offset); }

  // Tries O_DIRECT first, so that the pack's bytes are not in the page cache twice, as the pack's
  // and the mount's; a buffered read follows if that fails, and also finds the true error.
  void read_blocking() noexcept {
    try {
      if (!read_direct()) file->read_fully(offset, {buffer.data() + head(), size});
    } catch (...) {
      error = std::current_exception();
    }
  }

  // Returns false if the direct read is refused or comes short.
  [[nodiscard]] bool read_direct() {
    if (direct.fd < 0) return false;
    const ssize_t count =
        pread(direct.fd, buffer.data(), aligned_size, static_cast<off_t>(aligned_offset));
    // The read may end early past the end of the file, but not within the wanted range.
    return count >= 0 && static_cast<size_t>(count) >= head() + size && is_good();
  }

  // Returns whether the bytes of a direct read can be used.
  [[nodiscard]] bool is_good() {
    if (!direct.is_good || direct.is_good()) return true;
    direct.fd = -1;
    return false;
  }

  static void finish(std::unique_ptr<Operation> operation) {
    RawBytes raw;
    raw.bytes = {operation->buffer.data() + operation->head(), operation->size};
    raw.buffer = std::move(operation->buffer);
    raw.error = operation->error;
    operation->done(std::move(raw));
  }
};

ReadPort::ReadPort(ReadQueue& queue, Aio aio, Urgency urgency)
    : queue_(queue), urgency_(urgency), event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), aio_(aio) {
  if (!event_.valid()) throw StorageError(errno, "eventfd", "cannot create");
}

ReadPort::~ReadPort() {
  {
    std::unique_lock lock(mutex_);
    is_closing_ = true;
    none_outstanding_.wait(lock, [this] { return outstanding_ == 0; });
  }
  if (context_ == nullptr) return;
  // The kernel may still write into the buffers: collect every operation first.
  std::vector<std::unique_ptr<Operation>> finished;
  while (in_flight_ > 0) {
    wait();
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t drained = read(event_.get(), &count, sizeof count);
    reap_aio(finished);
  }
  io_destroy(context_);
}

void ReadPort::submit(const Source& file, uint64_t offset, size_t size, Done done, Bytes bytes) {
  auto operation = std::make_unique<Operation>();
  operation->file = &file;
  // Without a direct descriptor a thread reads through the page cache.
  operation->is_direct =
      file.direct() != nullptr && (file.reads_now() || !file.is_cached(offset, size));
  operation->offset = offset;
  operation->size = size;
  operation->aligned_offset = file.align_down(offset);
  operation->aligned_size =
      static_cast<size_t>(file.align_up(offset + size) - operation->aligned_offset);
  operation->buffer = queue_.buffers_.acquire(operation->aligned_size);
  operation->done = std::move(done);
  if (bytes == Bytes::kAnyhow && file.is_near(offset, size)) {
    launch(std::move(operation));
  } else {
    prepare(std::move(operation), bytes);
  }
}

// Starts the download of remote bytes; no thread waits for it.
void ReadPort::prepare(std::unique_ptr<Operation> operation, Bytes bytes) {
  {
    const std::lock_guard lock(mutex_);
    ++outstanding_;
  }
  const Source& file = *operation->file;
  const uint64_t offset = operation->offset;
  const size_t size = operation->size;
  // std::function needs a copyable callable.
  auto shared = std::make_shared<std::unique_ptr<Operation>>(std::move(operation));
  const auto prepared = [this, shared](std::exception_ptr error) {
    if (!error && is_wanted()) {
      launch(std::move(*shared));
      end_outstanding();
    } else {
      (*shared)->error = std::move(error);
      end_blocking(std::move(*shared));
    }
  };
  try {
    if (bytes == Bytes::kAnew) {
      file.refetch(offset, size, prepared);
    } else {
      file.prepare(offset, size,
                   urgency_ == Urgency::kBackground ? Source::Urgency::kBackground
                                                    : Source::Urgency::kSomeoneWaits,
                   prepared);
    }
  } catch (...) {
    prepared(std::current_exception());
  }
}

void ReadPort::launch(std::unique_ptr<Operation> operation) {
  if (operation->is_direct) {
    operation->direct = operation->file->begin_direct(operation->offset, operation->size);
  }
  {
    const std::lock_guard lock(mutex_);
    if (aio_ != Aio::kNone && operation->direct.fd >= 0) {
      if (in_flight_ >= kDepth) {
        backlog_.push_back(std::move(operation));
        return;
      }
      if (start_aio(*operation)) {
        // The kernel holds the operation now; reap_aio() takes it back.
        [[maybe_unused]] Operation* kept = operation.release();
        return;
      }
    }
  }
  start_blocking(std::move(operation));
}

bool ReadPort::start_aio(Operation& operation) {
  if (context_ == nullptr) {
    // EAGAIN: the system-wide limit (fs.aio-max-nr) is used up; ENOSYS: no AIO.
    if (io_setup(kDepth, &context_) != 0) {
      context_ = nullptr;
      aio_ = Aio::kNone;
      return false;
    }
  }
  iocb* control = &operation.control;
  io_prep_pread(control, operation.direct.fd, operation.buffer.data(), operation.aligned_size,
                static_cast<long long>(operation.aligned_offset));
  io_set_eventfd(control, event_.get());
  control->aio_rw_flags = aio_ == Aio::kMayWait ? 0 : RWF_NOWAIT;
  control->data = &operation;
  // Some refusals come here, others as the result of the completion.
  if (io_submit(context_, 1, &control) != 1) return false;
  ++in_flight_;
  return true;
}

void ReadPort::start_blocking(std::unique_ptr<Operation> operation) {
  {
    const std::lock_guard lock(mutex_);
    ++outstanding_;
  }
  // std::function needs a copyable callable.
  auto shared = std::make_shared<std::unique_ptr<Operation>>(std::move(operation));
  try {
    queue_.threads_.submit([this, shared] {
      if (is_wanted()) (*shared)->read_blocking();
      end_blocking(std::move(*shared));
    }, urgency_);
  } catch (const std::system_error& error) {
    (*shared)->error = std::make_exception_ptr(
        StorageError(error.code().value(), (*shared)->file->path(), "cannot start a thread"));
    end_blocking(std::move(*shared));
  }
}

// Returns false if the port is closing.
bool ReadPort::is_wanted() const {
  const std::lock_guard lock(mutex_);
  return !is_closing_;
}

void ReadPort::end_blocking(std::unique_ptr<Operation> operation) {
  auto shared = std::make_shared<std::unique_ptr<Operation>>(std::move(operation));
  const std::lock_guard lock(mutex_);
  posted_.push_back([shared] { Operation::finish(std::move(*shared)); });
  signal();
  // Notified under the lock: once outstanding_ is 0, the port may be destroyed.
  if (--outstanding_ == 0) none_outstanding_.notify_all();
}

void ReadPort::end_outstanding() {
  const std::lock_guard lock(mutex_);
  if (--outstanding_ == 0) none_outstanding_.notify_all();
}

void ReadPort::post(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(callback));
  }
  signal();
}

void ReadPort::signal() {
  const uint64_t one = 1;
  // Fails only if the counter is full, and then the event is readable anyway.
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
}

void ReadPort::reap_aio(std::vector<std::unique_ptr<Operation>>& done) {
  const std::lock_guard lock(mutex_);
  if (context_ == nullptr) return;
  std::array<io_event, kDepth> events;
  while (in_flight_ > 0) {
    timespec no_wait{0, 0};
    const int count = io_getevents(context_, 0, kDepth, events.data(), &no_wait);
    if (count <= 0) break;
    in_flight_ -= count;
    for (int i = 0; i < count; ++i) {
      const io_event& event = events[static_cast<size_t>(i)];
      std::unique_ptr<Operation> operation(static_cast<Operation*>(event.data));
      // `res` is really signed: a negative errno, or a count that may be short.
      const auto result = static_cast<int64_t>(event.res);
      const auto wanted = static_cast<int64_t>(operation->head() + operation->size);
      operation->refused = result < wanted;
      done.push_back(std::move(operation));
    }
  }
}

size_t ReadPort::poll() {
  // Drains the event before the completions, so that no completion goes unnoticed.
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = read(event_.get(), &count, sizeof count);

  std::vector<std::unique_ptr<Operation>> finished;
  reap_aio(finished);
  std::vector<std::function<void()>> posted;
  std::deque<std::unique_ptr<Operation>> waiting;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
    waiting.swap(backlog_);
  }
  for (auto& operation : waiting) launch(std::move(operation));

  size_t ran = posted.size();
  for (auto& operation : finished) {
    if (operation->refused || !operation->is_good()) {
      start_blocking(std::move(operation));
    } else {
      Operation::finish(std::move(operation));
      ++ran;
    }
  }
  for (auto& callback : posted) callback();
  return ran;
}

void ReadPort::wait(int timeout_ms) const {
  pollfd waiter{event_.get(), POLLIN, 0};
  ::poll(&waiter, 1, timeout_ms);
}

bool ReadPort::uses_aio() const {
  const std::lock_guard lock(mutex_);
  return aio_ != Aio::kNone;
}

}  // namespace ffrfs
