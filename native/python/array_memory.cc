#include "python/array_memory.h"

// The handler functions came with NumPy 1.22.
#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <malloc.h>
#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fetch/array_pool.h"

namespace ffrfs::python {
namespace {

ArrayPool& pool_of(void* context) { return *static_cast<ArrayPool*>(context); }

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

ArrayPool& array_pool() {
  static auto* pool = new ArrayPool;  // never destroyed, because arrays may live as long
  return *pool;
}

PyObject* make_handler() {
  static auto* handler = new PyDataMem_Handler{
      "ffrfs_pool", 1, {&array_pool(), allocate, allocate_zeroed, reallocate, release}};
  return PyCapsule_New(handler, "mem_handler", nullptr);
}

PyObject* handler_capsule = nullptr;

// Imports NumPy only when needed, because that takes 40 ms and most commands never need it.
PyObject* handler() {
  if (handler_capsule == nullptr) {
    if (_import_array() < 0) throw pybind11::error_already_set();
    // Another thread may have set it: an import releases the GIL.
    if (handler_capsule == nullptr) handler_capsule = make_handler();
    if (handler_capsule == nullptr) throw pybind11::error_already_set();
  }
  return handler_capsule;
}

}  // namespace

ArrayMemoryScope::ArrayMemoryScope() {
  PyObject* ours = handler();
  array_pool().begin();
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
