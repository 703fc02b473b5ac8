// Memory for the arrays that reads return. NumPy owns it as it owns any array's, but it comes from
// a pool that keeps some pages mapped. A batch of 64 records of 110 KB in new memory spends three
// quarters of its time on page faults.
//
// NumPy's own interface for this is a data memory handler (NEP 49), set while the arrays are
// created; each array remembers its handler, and is freed through it. Needs the GIL, so that a
// fork() cannot find the pool locked.

#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>

namespace ffrfs::python {

// While this object lives, arrays that this thread creates get their memory from the pool.
class ArrayMemoryScope {
 public:
  // Smaller arrays need no scope, because malloc's own free lists are as good.
  static constexpr size_t kSmallestPooled = 4096;

  ArrayMemoryScope();
  ArrayMemoryScope(const ArrayMemoryScope&) = delete;
  ArrayMemoryScope& operator=(const ArrayMemoryScope&) = delete;
  ~ArrayMemoryScope();

 private:
  pybind11::object previous_;
};
}  // namespace ffrfs::python
