// Raw reads that wait for the disk, many at once: Linux AIO on the O_DIRECT descriptor, or threads
// that call pread() where AIO or O_DIRECT is refused.
//
//   ReadPort ── submit() ──► AIO (O_DIRECT) ──┐
//   (one user)     │   refused, short         ├──► its eventfd ──► its poll() runs callbacks
//                  └──► threads (pread)  ─────┘
//
// Remote bytes are downloaded first (io/source.h). All ports share the threads of one ReadQueue.
// Background reads leave some of them free for reads that a reader waits for.
//
// submit() and poll() are thread-safe; callbacks run inside poll(), without a lock, on the thread
// that called it. submit() never waits for the disk (unless kMayWait): AIO gets RWF_NOWAIT, and
// reads that the kernel cannot start at once go to the threads. Does not survive fork() (see
// io/process_local.h).
//
// Not here: checksums, one fetch for many readers, limits on bytes in flight (fetch).

#pragma once

#include <libaio.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <new>
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

// Must outlive its ports.
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
    kNeverWaits,  // reads that the kernel cannot start at once go to the threads
    kMayWait,     // the caller waits anyway; also used where RWF_NOWAIT is refused (FUSE)
    kNone,        // all reads go to the threads
  };
  explicit ReadPort(ReadQueue& queue, Aio aio = Aio::kNeverWaits,
                    Urgency urgency = Urgency::kSomeoneWaits);
  // Waits for the disk's reads that have started, not for downloads; drops all callbacks.
  ~ReadPort();
  ReadPort(const ReadPort&) = delete;
  ReadPort& operator=(const ReadPort&) = delete;

  // Reads [offset, offset + size) of `file`, which must stay open until `done` ran. kAnew: fetches
  // the range again first (Source::refetch()).
  enum class Bytes { kAnyhow, kAnew };
  void submit(const Source& file, uint64_t offset, size_t size, Done done,
              Bytes bytes = Bytes::kAnyhow);

  // Runs `callback` in a later poll(). Thread-safe.
  void post(std::function<void()> callback);
  // Calls done(args...) in a later poll(), or, without memory for that, at once. Thread-safe.
  template <typename Done, typename... Args>
  void post_answer(const Done& done, const Args&... args) {
    try {
      post([done, args...] { done(args...); });
    } catch (const std::bad_alloc&) {
      done(args...);
    }
  }

  // Runs the callbacks of all finished reads, and returns how many. Never waits.
  size_t poll();

  // Waits until poll() has something to do, at most `timeout_ms` (-1: for ever); returns whether it
  // has.
  bool wait(int timeout_ms = -1) const;
  // Waits until poll() has something to do. Throws Interrupted.
  void wait_checked() const;

  // Ends a wait() of another thread, even if there is nothing to do.
  void signal();

  // Returns a descriptor that is readable when poll() has something to do.
  [[nodiscard]] int event_fd() const { return event_.get(); }

  // Returns false once the system has refused AIO.
  [[nodiscard]] bool uses_aio() const;

 private:
  struct Operation;
  struct Gate;
  // An operation keeps its node from submit() on, so that none is lost for want of memory.
  using Operations = std::list<std::unique_ptr<Operation>>;
  static constexpr int kDepth = 64;

  [[nodiscard]] bool start_aio(Operation& operation);
  void prepare(Operations one, Bytes bytes);
  void take_prepared(Operations::iterator place, std::exception_ptr error);
  void launch(Operations one) noexcept;
  [[nodiscard]] bool launch_aio(Operations& one);
  void start_blocking(Operations one);
  void read_in_thread(Operations::iterator place);
  void end(Operations& from, Operations::iterator place);
  void reap_aio(Operations& done);
  [[nodiscard]] static Operations take_first(Operations& from);

  ReadQueue& queue_;
  const Urgency urgency_;
  const std::shared_ptr<Gate> gate_;
  FileDescriptor event_;
  mutable std::mutex mutex_;  // guards all below
  Aio aio_;
  bool is_closing_ = false;
  Operations far_;         // their sources download what they need
  Operations in_threads_;
  std::condition_variable threads_are_done_;
  Operations ended_;       // their callbacks are to run
  io_context_t context_ = nullptr;
  int in_flight_ = 0;      // in the AIO context
  Operations backlog_;     // more than kDepth
  std::vector<std::function<void()>> posted_;
};

}  // namespace ffrfs
