#include "io/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <thread>

#include "io/checked.h"
#include "io/error.h"

// Of Linux 5.14; older C libraries do not name it.
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace ffrfs {
namespace {

using Range = MappedFile::Range;

const auto kPageSize = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// All ranges that there ever were at once. The handler may run at any moment, in any thread,
// so they are linked without a lock and never unlinked.
std::atomic<Range*> first_range{nullptr};
struct sigaction previous_action;

// Only async-signal-safe calls. A range that changes meanwhile is of another mapping than
// the one that was touched: no thread touches a mapping that is going.
Range* find_range(uintptr_t address) {
  for (Range* range = first_range.load(std::memory_order_acquire); range != nullptr;
       range = range->next) {
    const uintptr_t end = range->end.load(std::memory_order_acquire);
    const uintptr_t begin = range->begin.load(std::memory_order_acquire);
    if (begin <= address && address < end &&
        end == range->end.load(std::memory_order_acquire)) {
      return range;
    }
  }
  return nullptr;
}

// Marked before, for those who read the zeros at once.
bool put_zeros(Range& range, uintptr_t address) {
  range.handler_count.fetch_add(1);
  range.is_damaged.store(true);
  void* const page = reinterpret_cast<void*>(address & ~(uintptr_t{kPageSize} - 1));
  const bool is_there = mmap(page, kPageSize, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                             -1, 0) != MAP_FAILED;
  range.handler_count.fetch_sub(1);
  return is_there;
}

// As if our handler were not there.
void pass_on(int number, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(number, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(number);
  } else {
    // The instruction faults again and ends the process; one that was sent must be repeated.
    std::signal(number, SIG_DFL);
    if (info->si_code <= 0) raise(number);
  }
}

void handle_bus_error(int number, siginfo_t* info, void* context) {
  const int error_number = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  // A signal that was sent (code 0 and below) carries no address.
  Range* const range = info->si_code > 0 ? find_range(address) : nullptr;
  if (range == nullptr || !put_zeros(*range, address)) pass_on(number, info, context);
  errno = error_number;
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = handle_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    // It has to be known before ours runs for the first time.
    sigaction(SIGBUS, nullptr, &previous_action);
    sigaction(SIGBUS, &action, nullptr);
  });
}

Range* take_range() {
  for (Range* range = first_range.load(); range != nullptr; range = range->next) {
    if (!range->is_taken.exchange(true)) return range;
  }
  auto* const range = new Range;
  range->next = first_range.load();
  while (!first_range.compare_exchange_weak(range->next, range)) {
  }
  return range;
}

void* map_pages(const SourceFile& file, void* place, size_t size, uint64_t offset) {
  // Nothing is written, and FUSE disks that keep no pages (direct_io) refuse MAP_SHARED.
  void* const pages = mmap(place, size, PROT_READ, MAP_PRIVATE | (place == nullptr ? 0 : MAP_FIXED),
                           file.fd(), static_cast<off_t>(offset));
  if (pages == MAP_FAILED) throw StorageError(errno, file.path(), "cannot map");
  madvise(pages, size, MADV_RANDOM);
  return pages;
}

}  // namespace

MappedFile::MappedFile(const SourceFile& file, uint64_t offset, size_t size)
    : file_(file), file_offset_(offset & ~(uint64_t{kPageSize} - 1)) {
  const auto end = checked_add(offset, size);
  if (!end || *end > file.size() || size == 0) {
    throw StorageError(EINVAL, file.path(), "cannot map what the file does not have");
  }
  install_handler();
  const auto head = static_cast<size_t>(offset - file_offset_);
  pages_size_ = (head + size + kPageSize - 1) / kPageSize * kPageSize;
  pages_ = static_cast<std::byte*>(map_pages(file, nullptr, pages_size_, file_offset_));
  bytes_ = {pages_ + head, size};
  try {
    range_ = take_range();
  } catch (...) {
    munmap(pages_, pages_size_);
    throw;
  }
  range_->is_damaged = false;
  const auto begin = reinterpret_cast<uintptr_t>(pages_);
  range_->begin.store(begin, std::memory_order_release);
  range_->end.store(begin + pages_size_, std::memory_order_release);
}

MappedFile::~MappedFile() {
  // First: the kernel may give the addresses to somebody else at once.
  range_->end.store(0);
  munmap(pages_, pages_size_);
  range_->is_taken.store(false);
}

int MappedFile::advise(size_t offset, size_t size, int advice) const {
  const auto head = static_cast<size_t>(bytes_.data() - pages_);
  const size_t begin = (head + offset) / kPageSize * kPageSize;
  const size_t end = std::min(head + offset + size, pages_size_);
  return madvise(pages_ + begin, end - begin, advice) == 0 ? 0 : errno;
}

bool MappedFile::populate(size_t offset, size_t size) const {
  read_ahead(offset, size);
  // EFAULT is what would be a SIGBUS. All else means that they are not populated.
  return advise(offset, size, MADV_POPULATE_READ) != EFAULT;
}

void MappedFile::read_ahead(size_t offset, size_t size) const {
  advise(offset, size, MADV_WILLNEED);
}

void MappedFile::restore() {
  range_->is_damaged = false;
  // One that is at work has put, or is about to put, a zero page that this replaces; one
  // that comes later marks the range anew.
  while (range_->handler_count.load() != 0) std::this_thread::yield();
  try {
    map_pages(file_, pages_, pages_size_, file_offset_);
  } catch (...) {
    range_->is_damaged = true;
    throw;
  }
}

}  // namespace ffrfs
