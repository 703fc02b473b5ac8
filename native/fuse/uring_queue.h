// One thread with its ring, which serves one of the kernel's queues, or several.
//
//   the kernel ──► completion: a request is in an entry ──► the handler ──► answer()
//      ▲                                                                       │ this thread: at once
//      └── commit and fetch ◄── the thread's list ◄── inbox, eventfd ◄─────────┘ another thread
//
// An entry belongs to the kernel, or to a request that is not answered yet. While all of a queue
// belong to such requests the kernel can give it no more, so more entries are registered early:
// requests that wait for a disk hold up no others.
//
// The thread is pinned to the CPU of its queue, but for the time of a stream of large READs.
// The ring is used by this thread alone. answer() and stop() may come from any thread.

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
  // By the thread that will run(). `held_bytes`: of all queues. Throws StorageError.
  UringQueue(const RingThread& thread, const RingPlan& plan, std::atomic<size_t>& held_bytes);
  ~UringQueue();

  // Large READs are given to `hand_over`, which calls the handler on another thread.
  using HandOver = std::function<void(const Request&, const Reply&)>;

  // Serves until the connection ends, stop(), or the kernel refuses; the log says why.
  void run(int connection, Handler& handler, const HandOver& hand_over);
  void stop();

  void answer(const Reply& reply, int error, Parts parts) noexcept override;

 private:
  struct Entry;
  struct Batch;  // of entries, with their memory
  struct Queue;

  using CpuMask = std::vector<cpu_set_t>;  // empty: no CPU is known

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
  const CpuMask all_cpus_;  // of streams
  // Requests since the last large READ; from kStreamEnd on the thread is pinned.
  size_t small_count_ = SIZE_MAX;
  std::atomic<size_t>& held_bytes_;
  Ring ring_;
  FileDescriptor event_;  // of the inbox
  uint64_t event_value_ = 0;
  int connection_ = -1;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<Entry*> oversized_;  // give memory back when the kernel has their answers
  std::vector<Entry*> answered_;   // by others, taken out of inbox_
  std::atomic<bool> is_stopping_{false};
  std::mutex mutex_;  // guards inbox_
  std::vector<Entry*> inbox_;
};

}  // namespace ffrfs::fuse
