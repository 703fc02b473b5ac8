// Pages of checked ranges (checked_range.h) that were looked at lately: copies in memory of
// ours, up to 16 MiB for the whole process, however many files are open.
//
//   set of a page  ►  [ page | page | page | page ]     the one used longest ago gives way
//
// What is kept never changes and never expires: a range that is gone leaves pages that
// nobody asks for any more.
//
// Any thread. Nobody waits: a set that another thread is busy with holds nothing for us. So
// fork() may come at any moment; a set that was busy then stays so in the child.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ffrfs {

class KeptPages {
 public:
  static constexpr size_t kPageSize = 4096;
  static constexpr size_t kCapacity = size_t{16} << 20;

  struct Key {
    uint64_t range = 0;  // a number that no other range has or had, above 0
    uint64_t page = 0;
    bool operator==(const Key&) const = default;
  };

  explicit KeptPages(size_t capacity = kCapacity) : sets_(capacity / kPageSize / kWayCount) {}

  // Of this process; never destroyed.
  [[nodiscard]] static KeptPages& of_process();

  // Fills `target` from `offset` of the page, if it is kept; false if not. All of it must lie
  // in the page.
  [[nodiscard]] bool copy(const Key& key, size_t offset, std::span<std::byte> target);

  // `bytes`: at most kPageSize.
  void keep(const Key& key, std::span<const std::byte> bytes);

 private:
  static constexpr size_t kWayCount = 4;
  using Page = std::array<std::byte, kPageSize>;

  struct Slot {
    Key key;
    uint32_t used = 0;           // the set's clock then
    std::unique_ptr<Page> page;  // memory is taken when it is first needed
  };
  struct alignas(64) Set {
    std::atomic<bool> is_busy{false};
    uint32_t clock = 0;
    std::array<Slot, kWayCount> slots;
  };
  class Turn;  // at a set, or not

  [[nodiscard]] Set& set_of(const Key& key);

  std::vector<Set> sets_;
};

}  // namespace ffrfs
