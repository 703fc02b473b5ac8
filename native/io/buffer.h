// Page-aligned memory for reads, and a pool that keeps some of it mapped: a new allocation costs a
// page fault per 4 KiB, which takes longer than reading them.
//
// A buffer returns to its pool when it is destroyed, on any thread; the pool's memory outlives the
// pool object until the last buffer is returned.

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
  struct Shelf {  // the pool's free buffers
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
  // Keeps at most `free_limit_bytes` in free buffers.
  explicit BufferPool(size_t free_limit_bytes);

  // Returns a buffer of at least `size` bytes, with undefined content. Throws std::bad_alloc.
  [[nodiscard]] Buffer acquire(size_t size);
  // Returns the capacity of a buffer that acquire(size) returns.
  [[nodiscard]] static size_t capacity_for(size_t size);
  // Changes the limit of free buffers, and frees those beyond it. Thread-safe.
  void limit_free(size_t limit_bytes);
  // Frees all free buffers, and calls release_free_memory(). Thread-safe.
  void release();

 private:
  std::shared_ptr<Buffer::Shelf> shelf_;
};

// Returns memory that was freed, but that the C library still holds, to the system. May take
// milliseconds, during which other threads wait when they allocate.
void release_free_memory() noexcept;

}  // namespace ffrfs
