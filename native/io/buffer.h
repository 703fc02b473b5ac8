// Page-aligned memory for reads, and a pool that keeps some of it warm: a fresh
// allocation costs a page fault per 4 KiB, which is dearer than reading them.
//
// A buffer goes back to its pool when it is dropped, from any thread; the pool's
// memory outlives the pool object for as long as buffers are out.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace ffrfs {

class BufferPool;

class Buffer {
 public:
  static constexpr size_t kAlignment = 4096;

  Buffer() = default;
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] size_t capacity() const { return capacity_; }
  [[nodiscard]] std::span<std::byte> first(size_t size) const { return {data(), size}; }

 private:
  friend class BufferPool;
  struct Free {
    size_t capacity;
    Free() : capacity(0) {}
    explicit Free(size_t size) : capacity(size) {}
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  struct Shelf {  // what the pool holds on to
    std::mutex mutex;
    std::map<size_t, std::vector<Memory>> free;  // by capacity
    size_t free_bytes = 0;
    size_t free_limit_bytes = 0;
  };

  // Throws std::bad_alloc.
  [[nodiscard]] static Memory allocate(size_t capacity);
  void give_back() noexcept;

  Memory memory_;
  size_t capacity_ = 0;
  std::shared_ptr<Shelf> shelf_;
};

class BufferPool {
 public:
  // At most `free_limit_bytes` are kept while nobody uses them.
  explicit BufferPool(size_t free_limit_bytes);

  // At least `size` bytes, content undefined. Throws std::bad_alloc.
  [[nodiscard]] Buffer acquire(size_t size);
  // What such a buffer takes.
  [[nodiscard]] static size_t capacity_for(size_t size);
  // Changes how much is kept while nobody uses it; what is beyond goes. Any thread.
  void limit_free(size_t limit_bytes);

 private:
  std::shared_ptr<Buffer::Shelf> shelf_;
};

// Gives back to the system what the C library holds of memory that was freed. May take
// milliseconds; other threads that allocate wait for it.
void release_free_memory() noexcept;

}  // namespace ffrfs
