#include "stats/coverage.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

namespace ffrfs {
namespace {

size_t size_of(uint64_t record_count) { return static_cast<size_t>(record_count / 2 + 1); }

}  // namespace

Coverage::Coverage(int shared_fd, uint64_t record_count, CounterPage& page) {
  struct stat info{};
  if (shared_fd < 0 || fstat(shared_fd, &info) != 0) return;
  // An earlier version of the daemon has made a file that ends behind the counter page.
  const auto size = static_cast<uint64_t>(info.st_size);
  const uint64_t room = size - std::min<uint64_t>(kBegin, size);
  if (size_of(record_count) > room) return;
  void* memory = mmap(nullptr, size_of(record_count), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd,
                      static_cast<off_t>(kBegin));
  if (memory == MAP_FAILED) return;
  bits_ = static_cast<Bits*>(memory);
  record_count_ = record_count;
  page.row("coverage_records").store(record_count, std::memory_order_relaxed);
}

Coverage::~Coverage() {
  if (bits_ != nullptr) munmap(bits_, size_of(record_count_));
}

void Coverage::note_hint(uint64_t record) {
  if (record >= record_count_) return;
  Bits& bits = bits_[record / 2];
  const unsigned shift = shift_of(record);
  uint8_t old = bits.load(std::memory_order_relaxed);
  while ((old >> shift & 3) < 2 &&
         !bits.compare_exchange_weak(old, static_cast<uint8_t>(old + (1 << shift)),
                                     std::memory_order_relaxed)) {
  }
}

void Coverage::set(uint64_t record, uint8_t bits) {
  if (record >= record_count_) return;
  const auto wanted = static_cast<uint8_t>(bits << shift_of(record));
  Bits& place = bits_[record / 2];
  // Writing the same value again would make the processors fight for it.
  if ((place.load(std::memory_order_relaxed) & wanted) == wanted) return;
  place.fetch_or(wanted, std::memory_order_relaxed);
}

}  // namespace ffrfs
