// Memory for the arrays that reads return: NumPy owns it as it owns any array's, but
// it comes from a pool that keeps some pages warm. A batch of 64 records of 110 KB in
// fresh memory spends three quarters of its time on page faults.
//
// NumPy's own way for this is a data memory handler (NEP 49), set while the arrays are
// made; each array remembers it and frees itself through it.
// Needs the GIL, which is also why a fork() cannot find the pool locked.

#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>

namespace ffrfs::python {

// While it lives, arrays made by this thread take their memory from the pool.
class ArrayMemoryScope {
 public:
  // Below a page, malloc's own free lists are as warm: such arrays need no scope.
  static constexpr size_t kSmallestPooled = 4096;

  ArrayMemoryScope();
  ArrayMemoryScope(const ArrayMemoryScope&) = delete;
  ArrayMemoryScope& operator=(const ArrayMemoryScope&) = delete;
  ~ArrayMemoryScope();

 private:
  pybind11::object previous_;
};
}  // namespace ffrfs::python
