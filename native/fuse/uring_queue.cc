#include "fuse/uring_queue.h"

#include <sys/eventfd.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "fuse/log.h"
#include "io/error.h"

namespace ffrfs::fuse {
namespace {

constexpr uint64_t kInbox = 0;  // as user_data; any other value is an Entry's address
constexpr size_t kPageSize = 4096;
constexpr size_t kHeaderSize = 320;  // RingHeader, up to a cache line
constexpr size_t kEntryCountMax = 4096;  // of a queue
// Larger READs are answered by another thread, because those of a stream all come from one CPU.
constexpr uint32_t kLargeRead = 256 << 10;
// A stream is over after this many smaller requests in a row.
constexpr size_t kStreamEnd = 32;
constexpr unsigned kSubmissionCount = 256;
constexpr unsigned kCompletionCount = 1024;

// The queue that this thread serves.
thread_local const UringQueue* this_queue = nullptr;

}  // namespace

struct UringQueue::Entry {
  RingHeader* header = nullptr;
  std::span<std::byte> payload{};
  std::array<iovec, 2> parts{};  // for the kernel, at registration
  Queue* queue = nullptr;
  size_t held_bytes = 0;  // resident payload beyond its first page
};

struct UringQueue::Batch {
  Mapping headers;
  Mapping payloads;
  std::vector<Entry> entries;
};

struct UringQueue::Queue {
  uint16_t id = 0;
  size_t entry_count = 0;
  size_t idle_count = 0;  // owned by the kernel
  std::vector<std::unique_ptr<Batch>> batches{};
};

UringQueue::UringQueue(const RingThread& thread, const RingPlan& plan,
                       std::atomic<size_t>& held_bytes)
    : plan_(plan),
      own_cpu_(mask_of(thread.cpu < 0 ? std::vector<int>() : std::vector<int>{thread.cpu})),
      all_cpus_(mask_of(plan.cpus())),
      held_bytes_(held_bytes),
      ring_(kSubmissionCount, kCompletionCount),
      event_(eventfd(0, EFD_CLOEXEC)) {
  if (!event_.valid()) throw StorageError(errno, "", "cannot make an eventfd");
  for (const uint16_t id : thread.queues) {
    queues_.push_back(std::make_unique<Queue>());
    queues_.back()->id = id;
  }
  run_on(own_cpu_);
}

UringQueue::~UringQueue() = default;

UringQueue::CpuMask UringQueue::mask_of(const std::vector<int>& cpus) {
  CpuMask mask;
  for (const int cpu : cpus) {
    mask.resize(std::max(mask.size(), static_cast<size_t>(cpu) / CPU_SETSIZE + 1));
    CPU_SET_S(static_cast<size_t>(cpu), mask.size() * sizeof(cpu_set_t), mask.data());
  }
  return mask;
}

void UringQueue::run_on(const CpuMask& cpus) {
  if (cpus.empty()) return;
  // If the kernel refuses, requests are answered all the same, from another CPU.
  [[maybe_unused]] const int refused =
      sched_setaffinity(0, cpus.size() * sizeof(cpu_set_t), cpus.data());
}

// A small request is answered on the CPU of its reader, which sleeps meanwhile. The reader of a
// stream keeps running, so a thread that copies megabytes for it needs another CPU.
void UringQueue::follow_stream(bool is_large) {
  if (own_cpu_.empty()) return;
  if (is_large) {
    if (small_count_ >= kStreamEnd) run_on(all_cpus_);
    small_count_ = 0;
  } else if (small_count_ < kStreamEnd && ++small_count_ == kStreamEnd) {
    run_on(own_cpu_);
  }
}

// Throws if memory is short; then nothing has changed.
void UringQueue::add_entries(Queue& queue) {
  const size_t count = plan_.depth;
  if (queue.entry_count + count > kEntryCountMax) return;
  auto batch = std::make_unique<Batch>();
  batch->headers = Mapping(count * kHeaderSize, -1, 0);
  batch->payloads = Mapping(count * plan_.payload_size, -1, 0);
  batch->entries.resize(count);
  // Reserved here, because answer() must not fail for lack of memory.
  oversized_.reserve(oversized_.capacity() + count);
  answered_.reserve(answered_.capacity() + count);
  {
    const std::lock_guard lock(mutex_);
    inbox_.reserve(inbox_.capacity() + count);
  }
  queue.batches.push_back(std::move(batch));
  Batch& added = *queue.batches.back();
  for (size_t i = 0; i < count; ++i) {
    Entry& entry = added.entries[i];
    entry.header = reinterpret_cast<RingHeader*>(added.headers.data() + i * kHeaderSize);
    entry.payload = added.payloads.bytes().subspan(i * plan_.payload_size, plan_.payload_size);
    entry.parts = {
        {{entry.header, sizeof(RingHeader)}, {entry.payload.data(), entry.payload.size()}}};
    entry.queue = &queue;
    submit(entry, kRegister);
  }
  queue.entry_count += count;
  queue.idle_count += count;
}

// Without memory for more entries, requests of that CPU wait for those before them.
void UringQueue::grow(Queue& queue) noexcept {
  try {
    if (queue.idle_count < plan_.depth / 2) add_entries(queue);
  } catch (const std::exception&) {
  }
}

void UringQueue::submit(Entry& entry, uint32_t command) {
  io_uring_sqe& submission = ring_.next();
  submission.opcode = IORING_OP_URING_CMD;
  submission.fd = connection_;
  submission.cmd_op = command;
  if (command == kRegister) {
    submission.addr = reinterpret_cast<uint64_t>(entry.parts.data());
    submission.len = static_cast<uint32_t>(entry.parts.size());
  }
  submission.user_data = reinterpret_cast<uint64_t>(&entry);
  const RingCommand text{
      .flags = 0, .commit_id = entry.header->commit_id, .queue = entry.queue->id, .padding = {}};
  std::memcpy(submission.cmd, &text, sizeof text);
}

void UringQueue::listen() {
  io_uring_sqe& submission = ring_.next();
  submission.opcode = IORING_OP_READ;
  submission.fd = event_.get();
  submission.addr = reinterpret_cast<uint64_t>(&event_value_);
  submission.len = sizeof event_value_;
  submission.user_data = kInbox;
}

void UringQueue::run(int connection, Handler& handler, const HandOver& hand_over) {
  this_queue = this;
  connection_ = connection;
  listen();
  try {
    for (const auto& queue : queues_) add_entries(*queue);
  } catch (const std::exception& error) {
    // The kernel uses no ring until each queue has an entry.
    log_line(Priority::kWarning,
             std::string("no memory for rings: requests come over /dev/fuse: ") + error.what());
    return;
  }
  while (!is_stopping_) {
    ring_.submit_and_wait();
    release_memory();
    for (Ring::Completion found{}; ring_.take(found);) {
      if (found.user_data == kInbox) {
        listen();
        continue;
      }
      Entry& entry = *reinterpret_cast<Entry*>(found.user_data);
      if (found.result >= 0) {
        take(entry, handler, hand_over);
      } else if (!go_on_after(-found.result, entry)) {
        return;
      }
    }
    commit_inbox();
    for (const auto& queue : queues_) grow(*queue);
  }
}

bool UringQueue::go_on_after(int error, Entry& entry) {
  switch (error) {
    case EAGAIN:  // the kernel has not processed the answer to INIT yet
    case EINTR: submit(entry, kRegister); return true;
    case ENOTCONN:
    case ECONNABORTED:
    case ENODEV:
    case ECANCELED: return false;  // the connection has ended
    case EINVAL:
    case EOPNOTSUPP:
      log_line(Priority::kWarning, "the kernel takes no rings (" +
                                       std::generic_category().message(error) +
                                       "): requests come over /dev/fuse");
      return false;
    default:  // an error of one answer; the entry is lost
      log_line(Priority::kError,
               "the kernel refuses an answer: " + std::generic_category().message(error));
      --entry.queue->idle_count;
      return true;
  }
}

void UringQueue::take(Entry& entry, Handler& handler, const HandOver& hand_over) {
  --entry.queue->idle_count;
  std::erase(oversized_, &entry);  // its memory was not released, and is needed again
  InHeader header;
  std::memcpy(&header, entry.header->in_out, sizeof header);
  const size_t size = std::min<size_t>(entry.header->payload_size, entry.payload.size());
  const Reply reply(*this, header.unique, entry.payload, &entry);
  const auto request = parse_request(header, entry.header->op_in, entry.payload.first(size));
  const bool is_large = request && request->opcode == Opcode::kRead && request->size > kLargeRead;
  follow_stream(is_large);
  if (!request) {
    reply.error(EINVAL);
  } else if (is_large) {
    hand_over(*request, reply);
  } else {
    handler.handle(*request, reply);
  }
}

void UringQueue::answer(const Reply& reply, int error, Parts parts) noexcept {
  Entry& entry = *static_cast<Entry*>(reply.place());
  size_t size = 0;
  for (const Part part : parts) {
    if (part.size() > entry.payload.size() - size) return answer(reply, EIO, {});
    std::byte* const place = entry.payload.data() + size;
    if (!part.empty() && part.data() != place) std::memcpy(place, part.data(), part.size());
    size += part.size();
  }
  const OutHeader header{.len = static_cast<uint32_t>(sizeof(OutHeader) + size),
                         .error = -error,
                         .unique = reply.unique()};
  std::memcpy(entry.header->in_out, &header, sizeof header);
  entry.header->payload_size = static_cast<uint32_t>(size);
  if (this_queue == this) return commit(entry);
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = inbox_.empty();
    inbox_.push_back(&entry);  // its room was reserved
  }
  if (is_first) wake();
}

void UringQueue::commit(Entry& entry) {
  const size_t used = entry.header->payload_size;
  if (used > kPageSize + entry.held_bytes) {
    held_bytes_ += used - kPageSize - entry.held_bytes;
    entry.held_bytes = used - kPageSize;
  }
  if (entry.held_bytes > 0 && held_bytes_ > plan_.limit_bytes) oversized_.push_back(&entry);
  submit(entry, kCommitAndFetch);
  ++entry.queue->idle_count;
}

void UringQueue::commit_inbox() {
  {
    const std::lock_guard lock(mutex_);
    answered_.swap(inbox_);
  }
  for (Entry* const entry : answered_) commit(*entry);
  answered_.clear();
}

// The kernel copies an answer when it is submitted. If an entry has a new request already, that is
// in the first page: a read-only tree gets names, and nothing longer.
void UringQueue::release_memory() {
  if (ring_.has_unsubmitted()) return;
  for (Entry* const entry : oversized_) {
    const auto rest = entry->payload.subspan(kPageSize);
    madvise(rest.data(), rest.size(), MADV_DONTNEED);
    held_bytes_ -= std::exchange(entry->held_bytes, 0);
  }
  oversized_.clear();
}

void UringQueue::stop() {
  is_stopping_ = true;
  wake();
}

void UringQueue::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
}

}  // namespace ffrfs::fuse
