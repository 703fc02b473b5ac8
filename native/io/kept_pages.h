// Caches recently used pages of checked ranges (checked_range.h): private copies, up to 16 MiB for
// the whole process, however many files are open.
//
//   set of a page  ►  [ page | page | page | page ]     the least recently used is replaced
//
// Cached pages never change and never expire: pages of a range that is closed are just not asked
// for any more.
//
// Thread-safe. copy() and keep() never block: if another thread is using a set, lookups in it miss.
// So fork() may happen at any moment; a set that was in use then stays unusable in the child.

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
    uint64_t range = 0;  // unique for ever in the process, above 0
    uint64_t page = 0;
    bool operator==(const Key&) const = default;
  };

  explicit KeptPages(size_t capacity = kCapacity) : sets_(capacity / kPageSize / kWayCount) {}

  // Returns the cache of this process, which is never destroyed.
  [[nodiscard]] static KeptPages& of_process();

  // Fills `target` from `offset` of the page, and returns whether the page was cached. All of the
  // range must be inside the page.
  [[nodiscard]] bool copy(const Key& key, size_t offset, std::span<std::byte> target);
  // Does the same, but waits while another thread uses the set; a second at most.
  [[nodiscard]] bool copy_in_turn(const Key& key, size_t offset, std::span<std::byte> target);

  // Caches a page of at most kPageSize bytes.
  void keep(const Key& key, std::span<const std::byte> bytes);

 private:
  static constexpr size_t kWayCount = 4;
  using Page = std::array<std::byte, kPageSize>;

  struct Slot {
    Key key;
    uint32_t used = 0;  // the set's clock at the last use
    std::unique_ptr<Page> page;  // allocated at the first use
  };
  struct alignas(64) Set {
    std::atomic<bool> is_busy{false};
    uint32_t clock = 0;
    std::array<Slot, kWayCount> slots;
  };
  class Turn;  // exclusive use of a set, if it was free

  [[nodiscard]] Set& set_of(const Key& key);
  [[nodiscard]] static bool copy_from(Set& set, const Key& key, size_t offset,
                                      std::span<std::byte> target);

  std::vector<Set> sets_;
};

}  // namespace ffrfs
