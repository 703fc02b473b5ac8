#include "python/array_memory.h"

// The handler functions came with NumPy 1.22.
#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <malloc.h>
#include <numpy/arrayobject.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

namespace ffrfs::python {
namespace {

constexpr size_t kPageSize = 4096;
// Below a page, malloc's own free lists are as warm.
constexpr size_t kSmallestPooled = kPageSize;
// What is kept while no array uses it: two batches of 64 records of 256 KB.
constexpr size_t kFreeLimitBytes = size_t{32} << 20;

// Steps of a quarter of the power of two below, in whole pages.
size_t step_of(size_t size) { return std::max(std::bit_floor(size) / 4, kPageSize); }
size_t class_up(size_t size) {
  const size_t step = step_of(size);
  return (size + step - 1) / step * step;
}
size_t class_down(size_t size) { return size / step_of(size) * step_of(size); }

class Pool {
 public:
  void* take(size_t size) {
    if (size < kSmallestPooled) return std::malloc(size);
    const size_t capacity = class_up(size);
    if (const auto found = free_.find(capacity); found != free_.end() && !found->second.empty()) {
      void* memory = found->second.back();
      found->second.pop_back();
      free_bytes_ -= capacity;
      return memory;
    }
    return std::aligned_alloc(kPageSize, capacity);
  }

  // Goes by what malloc says it is, not by what the caller believes.
  void give(void* memory) {
    const size_t usable = malloc_usable_size(memory);
    const size_t capacity = usable < kSmallestPooled ? 0 : class_down(usable);
    if (capacity == 0 || free_bytes_ + capacity > kFreeLimitBytes ||
        reinterpret_cast<uintptr_t>(memory) % kPageSize != 0) {
      std::free(memory);
      return;
    }
    free_[capacity].push_back(memory);
    free_bytes_ += capacity;
  }

 private:
  std::map<size_t, std::vector<void*>> free_;  // by capacity
  size_t free_bytes_ = 0;
};

Pool& pool_of(void* context) { return *static_cast<Pool*>(context); }

void* allocate(void* context, size_t size) { return pool_of(context).take(size); }

void* allocate_zeroed(void* context, size_t count, size_t size) {
  size_t total = 0;
  if (__builtin_mul_overflow(count, size, &total)) return nullptr;
  void* memory = pool_of(context).take(total);
  if (memory != nullptr) std::memset(memory, 0, total);
  return memory;
}

void release(void* context, void* memory, size_t /*size*/) {
  if (memory != nullptr) pool_of(context).give(memory);
}

void* reallocate(void* context, void* memory, size_t size) {
  void* moved = pool_of(context).take(size);
  if (moved == nullptr || memory == nullptr) return moved;
  std::memcpy(moved, memory, std::min(size, malloc_usable_size(memory)));
  pool_of(context).give(memory);
  return moved;
}

// The handler lives as long as any array may: for ever.
PyObject* make_handler() {
  static auto* handler = new PyDataMem_Handler{
      "ffrfs_pool", 1, {new Pool, allocate, allocate_zeroed, reallocate, release}};
  return PyCapsule_New(handler, "mem_handler", nullptr);
}

PyObject* handler_capsule = nullptr;

// With NumPy, which takes 40 ms to import, and which most commands never need.
PyObject* handler() {
  if (handler_capsule == nullptr) {
    if (_import_array() < 0) throw pybind11::error_already_set();
    // Another thread may have been here: an import lets go of the GIL.
    if (handler_capsule == nullptr) handler_capsule = make_handler();
    if (handler_capsule == nullptr) throw pybind11::error_already_set();
  }
  return handler_capsule;
}

}  // namespace

ArrayMemoryScope::ArrayMemoryScope() {
  PyObject* ours = handler();
  previous_ = pybind11::reinterpret_steal<pybind11::object>(PyDataMem_SetHandler(ours));
  if (!previous_) throw pybind11::error_already_set();
}

ArrayMemoryScope::~ArrayMemoryScope() {
  PyObject* ours = PyDataMem_SetHandler(previous_.ptr());
  if (ours == nullptr) {
    PyErr_Clear();  // a destructor may not throw; the handler stays, which is harmless
  } else {
    Py_DECREF(ours);
  }
}

}  // namespace ffrfs::python
