// Named numbers in memory that another process may read while they change.
//
//   0x00  8  "ffrfscnt"
//   0x08  8  bytes in use, including this header
//   0x10     rows, one after the other:
//              0x00  32  name, padded with zeros
//              0x20   8  how many values
//              0x28      the values, 8 bytes each
//
// Thanks to the names, a daemon can read the page of a worker of another version. Read by
// ffrfs/mount/engines/counter_page.py. Thread-safe; rows are never removed.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>

namespace ffrfs {

using Counter = std::atomic<uint64_t>;
static_assert(Counter::is_always_lock_free && sizeof(Counter) == 8);

class CounterPage {
 public:
  static constexpr size_t kSize = 64 << 10;
  static constexpr size_t kNameSize = 32;

  // `shared_fd`: a file of at least kSize bytes that others map, too; it stays the caller's to
  // close. -1: private memory. Throws StorageError.
  explicit CounterPage(int shared_fd = -1);
  ~CounterPage();
  CounterPage(const CounterPage&) = delete;
  CounterPage& operator=(const CounterPage&) = delete;

  // Returns the values of that name; zeros if the row is new. They live as long as the page. Throws
  // std::length_error if the name is too long, the row has another count, or there is no room.
  [[nodiscard]] std::span<Counter> row(std::string_view name, size_t count);
  [[nodiscard]] Counter& row(std::string_view name) { return row(name, 1)[0]; }

  // Returns the whole page, in the layout above.
  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory_, kSize}; }

 private:
  [[nodiscard]] Counter& used() const;

  std::mutex mutex_;  // guards the creation of rows
  std::byte* memory_ = nullptr;
};

}  // namespace ffrfs
