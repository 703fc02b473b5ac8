// Raw reads that wait for the disk, many at once: Linux AIO on the O_DIRECT descriptor, or
// threads that pread where AIO or O_DIRECT is refused.
//
//   ReadPort ── submit() ──► AIO (O_DIRECT) ──┐
//   (one user)     │   refused, short         ├──► its eventfd ──► its poll() runs callbacks
//                  └──► threads (pread)  ─────┘
//   Bytes that are far away are prepared first (io/source.h).
//   ReadQueue: those threads, which all ports share. Some are left free for reads that
//   someone waits for, whatever a batch has submitted.
//
// Threads: submit() and poll() from any thread; callbacks run inside poll(), without
// a lock, on the thread that called it. submit() never waits for the disk (unless it may):
// AIO is asked with RWF_NOWAIT, and what the kernel cannot start at once goes to the threads.
// Does not survive fork() (see io/process_local.h).
//
// Not here: checksums, single flight, limits on bytes in flight (fetch).

#pragma once

#include <libaio.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "io/buffer.h"
#include "io/file_descriptor.h"
#include "io/source.h"
#include "io/thread_pool.h"

namespace ffrfs {

// The bytes that were asked for, inside the (larger, aligned) buffer; or an error.
struct RawBytes {
  Buffer buffer;
  std::span<const std::byte> bytes;
  std::exception_ptr error;
};

// Outlives its ports.
class ReadQueue {
 public:
  static constexpr size_t kThreads = 32;  // enough to keep a network file system busy
  static constexpr size_t kBatchThreads = 24;

  explicit ReadQueue(BufferPool& buffers) : buffers_(buffers), threads_(kThreads, kBatchThreads) {}

 private:
  friend class ReadPort;
  BufferPool& buffers_;
  ThreadPool threads_;
};

class ReadPort {
 public:
  using Done = std::function<void(RawBytes)>;
  using Urgency = ThreadPool::Urgency;

  enum class Aio {
    kNeverWaits,  // what the kernel cannot start at once goes to the threads
    kMayWait,     // for a caller that waits anyway: also where RWF_NOWAIT is refused (FUSE)
    kNone,        // all goes to the threads
  };
  explicit ReadPort(ReadQueue& queue, Aio aio = Aio::kNeverWaits,
                    Urgency urgency = Urgency::kSomeoneWaits);
  ~ReadPort();  // waits for what is being read; drops what is not, and the callbacks
  ReadPort(const ReadPort&) = delete;
  ReadPort& operator=(const ReadPort&) = delete;

  // Reads [offset, offset + size) of `file`, which must stay open until `done` ran. kAnew: what
  // is near is not to be had (Source::refetch()).
  enum class Bytes { kAnyhow, kAnew };
  void submit(const Source& file, uint64_t offset, size_t size, Done done,
              Bytes bytes = Bytes::kAnyhow);

  // Runs `callback` in a poll() to come. Any thread.
  void post(std::function<void()> callback);

  // Runs the callbacks of all that has finished. Returns how many. Never waits.
  size_t poll();

  // Waits until there is something to poll(), at most `timeout_ms` (-1: for ever).
  void wait(int timeout_ms = -1) const;

  // Readable when poll() has something to do.
  [[nodiscard]] int event_fd() const { return event_.get(); }

  // False once AIO was found to be refused by the system.
  [[nodiscard]] bool uses_aio() const;

 private:
  struct Operation;
  static constexpr int kDepth = 64;

  [[nodiscard]] bool start_aio(Operation& operation);
  void prepare(std::unique_ptr<Operation> operation, Bytes bytes);
  void start_blocking(std::unique_ptr<Operation> operation);
  [[nodiscard]] bool is_wanted() const;
  void end_blocking(std::unique_ptr<Operation> operation);
  void end_elsewhere();
  void launch(std::unique_ptr<Operation> operation);
  void reap_aio(std::vector<std::unique_ptr<Operation>>& done);
  void signal();

  ReadQueue& queue_;
  const Urgency urgency_;
  FileDescriptor event_;
  mutable std::mutex mutex_;  // guards all below
  Aio aio_;
  bool is_closing_ = false;
  size_t elsewhere_ = 0;  // operations that threads or sources have
  std::condition_variable none_elsewhere_;
  io_context_t context_ = nullptr;
  int in_flight_ = 0;                                   // in the AIO context
  std::deque<std::unique_ptr<Operation>> backlog_;      // beyond kDepth
  std::vector<std::function<void()>> posted_;
};

}  // namespace ffrfs
