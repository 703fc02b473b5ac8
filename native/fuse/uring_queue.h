// One thread with its ring, which serves one or several of the kernel's queues.
//
//   the kernel ──► completion: a request is in an entry ──► the handler ──► answer()
//      ▲                                                                       │ this thread
//      └── commit and fetch ◄── the thread's list ◄── inbox, eventfd ◄─────────┘ another thread
//
// An entry belongs to the kernel, or to a request that is not answered yet. If a queue has no entry
// left for the kernel, it cannot deliver requests, so more entries are registered early: requests
// that wait for a disk do not block others.
//
// The thread is pinned to the CPU of its queue, except during a stream of large READs. Only this
// thread uses the ring. answer() and stop() are thread-safe.

#pragma once

#include <sched.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "fuse/handler.h"
#include "fuse/ring.h"
#include "fuse/ring_plan.h"
#include "io/file_descriptor.h"

namespace ffrfs::fuse {

class UringQueue final : public AnswerSink {
 public:
  // Must be called on the thread that will run(). `held_bytes`: of all queues. Throws StorageError.
  UringQueue(const RingThread& thread, const RingPlan& plan, std::atomic<size_t>& held_bytes);
  ~UringQueue();

  // Passes large READs to `hand_over`, which calls the handler on another thread.
  using HandOver = std::function<void(const Request&, const Reply&)>;

  // Serves until the connection ends, stop(), or an error of the kernel, which is logged.
  void run(int connection, Handler& handler, const HandOver& hand_over);
  void stop();

  void answer(const Reply& reply, int error, Parts parts) noexcept override;

 private:
  struct Entry;
  struct Batch;  // entries with their memory
  struct Queue;

  using CpuMask = std::vector<cpu_set_t>;  // empty: unknown

  static CpuMask mask_of(const std::vector<int>& cpus);
  static void run_on(const CpuMask& cpus);
  void follow_stream(bool is_large);
  void add_entries(Queue& queue);
  void grow(Queue& queue) noexcept;
  void submit(Entry& entry, uint32_t command);
  void listen();
  [[nodiscard]] bool go_on_after(int error, Entry& entry);
  void take(Entry& entry, Handler& handler, const HandOver& hand_over);
  void commit(Entry& entry);
  void commit_inbox();
  void release_memory();
  void wake() const;

  const RingPlan plan_;
  const CpuMask own_cpu_;
  const CpuMask all_cpus_;  // for streams
  // Requests since the last large READ; from kStreamEnd on the thread is pinned.
  size_t small_count_ = SIZE_MAX;
  std::atomic<size_t>& held_bytes_;
  Ring ring_;
  FileDescriptor event_;  // wakes the thread for its inbox
  uint64_t event_value_ = 0;
  int connection_ = -1;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<Entry*> oversized_;  // to release memory once the kernel has their answers
  std::vector<Entry*> answered_;  // by other threads; swapped out of inbox_
  std::atomic<bool> is_stopping_{false};
  std::mutex mutex_;  // guards inbox_
  std::vector<Entry*> inbox_;
};

}  // namespace ffrfs::fuse
