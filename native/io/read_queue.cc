#include "io/read_queue.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "io/error.h"
#include "io/wait_check.h"

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
  bool refused = false;  // AIO refused the read or came short, so a thread has to read
  Operations node;       // its own list node, while the kernel holds it
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

ReadPort::Operations ReadPort::take_first(Operations& from) {
  Operations one;
  one.splice(one.begin(), from, from.begin());
  return one;
}

// The way by which a download reports back to the port, which may be destroyed before that.
struct ReadPort::Gate {
  std::mutex mutex;  // locked before the mutex of the port
  ReadPort* port;    // null once the port ends
};

ReadPort::ReadPort(ReadQueue& queue, Aio aio, Urgency urgency)
    : queue_(queue),
      urgency_(urgency),
      gate_(std::make_shared<Gate>()),
      event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      aio_(aio) {
  if (!event_.valid()) throw StorageError(errno, "eventfd", "cannot create");
  gate_->port = this;
}

ReadPort::~ReadPort() {
  {
    const std::lock_guard lock(gate_->mutex);
    gate_->port = nullptr;
  }
  {
    std::unique_lock lock(mutex_);
    is_closing_ = true;
    threads_are_done_.wait(lock, [this] { return in_threads_.empty(); });
  }
  if (context_ == nullptr) return;
  // The kernel may still write into the buffers: collect every operation first.
  Operations finished;
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
  Operations one;
  one.push_back(std::move(operation));
  if (bytes == Bytes::kAnyhow && file.is_near(offset, size)) {
    launch(std::move(one));
  } else {
    prepare(std::move(one), bytes);
  }
}

// Starts the download of remote bytes; no thread waits for it.
void ReadPort::prepare(Operations one, Bytes bytes) {
  const Operation& operation = *one.front();
  const Source& file = *operation.file;
  const uint64_t offset = operation.offset;
  const size_t size = operation.size;
  const auto place = one.begin();
  {
    const std::lock_guard lock(mutex_);
    far_.splice(far_.end(), one);
  }
  const auto prepared = [gate = gate_, place](std::exception_ptr error) {
    const std::lock_guard lock(gate->mutex);
    if (gate->port != nullptr) gate->port->take_prepared(place, std::move(error));
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

void ReadPort::take_prepared(Operations::iterator place, std::exception_ptr error) {
  if (error) {
    (*place)->error = std::move(error);
    return end(far_, place);
  }
  Operations one;
  {
    const std::lock_guard lock(mutex_);
    one.splice(one.begin(), far_, place);
  }
  launch(std::move(one));
}

// Starts the read. If that fails, the operation ends with the error.
void ReadPort::launch(Operations one) noexcept {
  try {
    if (!launch_aio(one)) start_blocking(std::move(one));
  } catch (...) {
    one.front()->error = std::current_exception();
    end(one, one.begin());
  }
}

// Returns false if a thread has to read.
bool ReadPort::launch_aio(Operations& one) {
  Operation& operation = *one.front();
  if (operation.is_direct) {
    operation.direct = operation.file->begin_direct(operation.offset, operation.size);
  }
  const std::lock_guard lock(mutex_);
  if (aio_ == Aio::kNone || operation.direct.fd < 0) return false;
  if (in_flight_ >= kDepth) {
    backlog_.splice(backlog_.end(), one);
    return true;
  }
  if (!start_aio(operation)) return false;
  // The kernel holds the operation now; reap_aio() takes it back.
  Operation* const held = one.front().release();
  held->node = std::move(one);
  return true;
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
  // AIO may refuse here, or later in the result of the completion.
  if (io_submit(context_, 1, &control) != 1) return false;
  ++in_flight_;
  return true;
}

void ReadPort::start_blocking(Operations one) {
  const auto place = one.begin();
  {
    const std::lock_guard lock(mutex_);
    in_threads_.splice(in_threads_.end(), one);
  }
  try {
    queue_.threads_.submit([this, place] { read_in_thread(place); }, urgency_);
  } catch (const std::system_error&) {
    (*place)->error = std::make_exception_ptr(NoThreadError((*place)->file->path()));
    end(in_threads_, place);
  } catch (...) {
    (*place)->error = std::current_exception();
    end(in_threads_, place);
  }
}

void ReadPort::read_in_thread(Operations::iterator place) {
  bool is_wanted = false;
  {
    const std::lock_guard lock(mutex_);
    is_wanted = !is_closing_;
  }
  if (is_wanted) (*place)->read_blocking();
  end(in_threads_, place);
}

// Leaves the operation's callback to poll().
void ReadPort::end(Operations& from, Operations::iterator place) {
  const std::lock_guard lock(mutex_);
  ended_.splice(ended_.end(), from, place);
  signal();
  // Notified under the lock: once no thread reads, the port may be destroyed.
  if (in_threads_.empty()) threads_are_done_.notify_all();
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

void ReadPort::reap_aio(Operations& done) {
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
      auto* const operation = static_cast<Operation*>(event.data);
      Operations one = std::move(operation->node);
      one.front().reset(operation);
      done.splice(done.end(), one);
      // `res` is really signed: a negative errno, or a count that may be short.
      const auto result = static_cast<int64_t>(event.res);
      const auto wanted = static_cast<int64_t>(operation->head() + operation->size);
      operation->refused = result < wanted;
    }
  }
}

size_t ReadPort::poll() {
  // Drains the event before the completions, so that no completion goes unnoticed.
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = read(event_.get(), &count, sizeof count);

  Operations finished;
  reap_aio(finished);
  std::vector<std::function<void()>> posted;
  Operations ended;
  Operations waiting;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
    ended.swap(ended_);
    waiting.swap(backlog_);
  }
  while (!waiting.empty()) launch(take_first(waiting));
  size_t ran = posted.size() + ended.size();
  while (!finished.empty()) {
    Operations one = take_first(finished);
    if (one.front()->refused || !one.front()->is_good()) {
      start_blocking(std::move(one));
    } else {
      Operation::finish(std::move(one.front()));
      ++ran;
    }
  }
  for (auto& operation : ended) Operation::finish(std::move(operation));
  for (auto& callback : posted) callback();
  return ran;
}

bool ReadPort::wait(int timeout_ms) const {
  pollfd waiter{event_.get(), POLLIN, 0};
  return ::poll(&waiter, 1, timeout_ms) > 0;
}

void ReadPort::wait_checked() const {
  while (!wait(static_cast<int>(kWaitCheckInterval.count()))) check_wait();
}

bool ReadPort::uses_aio() const {
  const std::lock_guard lock(mutex_);
  return aio_ != Aio::kNone;
}

}  // namespace ffrfs
