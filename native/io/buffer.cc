#include "io/buffer.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

namespace ffrfs {
namespace {

// Buffers of this size and above are mapped, so that freeing them returns the memory to the system.
// malloc would soon serve such sizes from its heaps, too, which it can hardly ever shrink: a worker
// with 64 readers came to hold ten times the memory that it was allowed.
constexpr size_t kMappedSizeMin = 128 << 10;

// Four size classes an octave: at most a quarter of a buffer is unused, and records of similar size
// can reuse each other's buffers.
size_t size_class(size_t size) {
  if (size <= Buffer::kAlignment) return Buffer::kAlignment;
  const size_t step = std::max(std::bit_floor(size - 1) / 4, Buffer::kAlignment);
  return (size + step - 1) / step * step;
}

}  // namespace

Buffer::Memory Buffer::allocate(size_t capacity) {
  void* memory = capacity < kMappedSizeMin ? std::aligned_alloc(kAlignment, capacity)
                                           : mmap(nullptr, capacity, PROT_READ | PROT_WRITE,
                                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == nullptr || memory == MAP_FAILED) throw std::bad_alloc();
  return Memory(static_cast<std::byte*>(memory), Free{capacity});
}

void Buffer::Free::operator()(std::byte* memory) const {
  if (capacity < kMappedSizeMin) {
    std::free(memory);
  } else {
    munmap(memory, capacity);
  }
}

Buffer::~Buffer() { give_back(); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    give_back();
    memory_ = std::move(other.memory_);
    capacity_ = std::exchange(other.capacity_, 0);
    shelf_ = std::move(other.shelf_);
  }
  return *this;
}

void Buffer::give_back() noexcept {
  if (!memory_ || !shelf_) return;
  try {
    const std::lock_guard lock(shelf_->mutex);
    if (shelf_->free_bytes + capacity_ <= shelf_->free_limit_bytes) {
      shelf_->free[capacity_].push_back(std::move(memory_));
      shelf_->free_bytes += capacity_;
    }
  } catch (...) {
    // No memory for the list entry: the buffer is freed.
  }
  memory_.reset();
  shelf_.reset();
}

BufferPool::BufferPool(size_t free_limit_bytes) : shelf_(std::make_shared<Buffer::Shelf>()) {
  shelf_->free_limit_bytes = free_limit_bytes;
}

size_t BufferPool::capacity_for(size_t size) { return size_class(size); }

Buffer BufferPool::acquire(size_t size) {
  Buffer buffer;
  buffer.capacity_ = capacity_for(size);
  {
    const std::lock_guard lock(shelf_->mutex);
    if (const auto found = shelf_->free.find(buffer.capacity_);
        found != shelf_->free.end() && !found->second.empty()) {
      buffer.memory_ = std::move(found->second.back());
      found->second.pop_back();
      shelf_->free_bytes -= buffer.capacity_;
    }
  }
  if (!buffer.memory_) buffer.memory_ = Buffer::allocate(buffer.capacity_);
  buffer.shelf_ = shelf_;
  return buffer;
}

void BufferPool::limit_free(size_t limit_bytes) {
  std::vector<Buffer::Memory> dropped;  // freed after the lock is released
  const std::lock_guard lock(shelf_->mutex);
  shelf_->free_limit_bytes = limit_bytes;
  for (auto& [capacity, buffers] : shelf_->free) {
    while (shelf_->free_bytes > limit_bytes && !buffers.empty()) {
      dropped.push_back(std::move(buffers.back()));
      buffers.pop_back();
      shelf_->free_bytes -= capacity;
    }
  }
}

void BufferPool::release() {
  {
    std::map<size_t, std::vector<Buffer::Memory>> dropped;  // freed after the lock is released
    const std::lock_guard lock(shelf_->mutex);
    dropped.swap(shelf_->free);
    shelf_->free_bytes = 0;
  }
  release_free_memory();
}

void release_free_memory() noexcept {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace ffrfs
