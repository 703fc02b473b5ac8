#include "stats/counter_page.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "io/error.h"

namespace ffrfs {
namespace {

constexpr char kMagic[] = "ffrfscnt";
constexpr size_t kMagicSize = 8;
constexpr size_t kHeaderSize = 16;

struct RowHeader {
  char name[CounterPage::kNameSize];
  uint64_t count;
};
static_assert(sizeof(RowHeader) == 40);

}  // namespace

CounterPage::CounterPage(int shared_fd) {
  if (shared_fd >= 0) {
    struct stat info{};
    // Accessing a mapping beyond the end of the file would raise SIGBUS.
    if (fstat(shared_fd, &info) != 0 || info.st_size < static_cast<off_t>(kSize)) {
      throw StorageError(EINVAL, "counter page", "cannot map");
    }
  }
  void* memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                      shared_fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, shared_fd, 0);
  if (memory == MAP_FAILED) throw StorageError(errno, "counter page", "cannot map");
  memory_ = static_cast<std::byte*>(memory);
  if (used().load(std::memory_order_acquire) == 0) {
    std::memcpy(memory_, kMagic, kMagicSize);
    used().store(kHeaderSize, std::memory_order_release);
  }
}

CounterPage::~CounterPage() { munmap(memory_, kSize); }

Counter& CounterPage::used() const { return *reinterpret_cast<Counter*>(memory_ + kMagicSize); }

std::span<Counter> CounterPage::row(std::string_view name, size_t count) {
  if (name.size() >= kNameSize) throw std::length_error("counter page: name too long");
  const std::lock_guard lock(mutex_);
  const size_t end = static_cast<size_t>(used().load(std::memory_order_acquire));
  // A process that has ended may have left anything.
  if (end > kSize) throw std::length_error("counter page: damaged");
  size_t position = kHeaderSize;
  while (position + sizeof(RowHeader) <= end) {
    const auto* row = reinterpret_cast<const RowHeader*>(memory_ + position);
    position += sizeof(RowHeader);
    if (row->count > (end - position) / sizeof(Counter)) {
      throw std::length_error("counter page: damaged");
    }
    if (std::string_view(row->name, strnlen(row->name, sizeof row->name)) == name) {
      if (row->count != count) throw std::length_error("counter page: another count of values");
      return {reinterpret_cast<Counter*>(memory_ + position), count};
    }
    position += static_cast<size_t>(row->count) * sizeof(Counter);
  }
  if (position != end || count > (kSize - end) / sizeof(Counter) ||
      sizeof(RowHeader) + count * sizeof(Counter) > kSize - end) {
    throw std::length_error("counter page: no room");
  }
  auto* row = reinterpret_cast<RowHeader*>(memory_ + end);
  std::memset(row->name, 0, sizeof row->name);
  std::memcpy(row->name, name.data(), name.size());
  row->count = count;
  // Stored last, so that a reader sees only complete rows.
  used().store(end + sizeof(RowHeader) + count * sizeof(Counter), std::memory_order_release);
  return {reinterpret_cast<Counter*>(memory_ + end + sizeof(RowHeader)), count};
}

}  // namespace ffrfs
