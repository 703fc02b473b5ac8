// Errors and values on their way to Python, for all files of the binding.
//
// Everything here needs the GIL.

#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fetch/fetcher.h"
#include "scrub/scrub.h"

namespace ffrfs::python {

namespace py = pybind11;

// Releases the GIL while it lives. A thread that waits for it while Python ends stays here (gil.cc).
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() { PyEval_RestoreThread(state_); }

 private:
  PyThreadState* const state_;
};

// Runs `work` without the GIL, and returns its result.
template <typename Work> auto unlocked(Work work) {
  const Unlocked released;
  return work();
}

// Each adds its classes to the module.
void bind_examples(py::module_& module);
void bind_entry_list(py::module_& module);
void bind_pack(py::module_& module);
void bind_records(py::module_& module);
void bind_remote(py::module_& module);
void bind_sidecar(py::module_& module);
void bind_tfrecords(py::module_& module);
void bind_volume(py::module_& module);
void bind_writer(py::module_& module);

// Returns the Python exception (of ffrfs.errors, or a built-in one) for `error`.
[[nodiscard]] py::object to_python(const std::exception_ptr& error);

// Raises that exception.
[[noreturn]] void raise(const std::exception_ptr& error);

// File names and texts of the core may not be UTF-8: to_bytes_list() returns bytes, and fs_text()
// decodes as os.fsdecode() does.
[[nodiscard]] py::list to_bytes_list(const std::vector<std::string>& texts);
[[nodiscard]] py::str fs_text(const std::string& text);

// Returns a non-negative index from any integer object. Raises IndexError.
[[nodiscard]] size_t to_index(py::handle object);

// Returns extent_of(number) for each number in `indices`; it may wait for pages of an index.
template <typename ExtentOf>
std::vector<Extent> extents_of(const py::sequence& indices, ExtentOf extent_of) {
  std::vector<uint64_t> numbers;
  // Owned, because an element of a sequence may be a new object with no other reference.
  for (const py::object index : indices) numbers.push_back(to_index(index));
  return unlocked([&] {
    std::vector<Extent> extents;
    for (const uint64_t number : numbers) extents.push_back(extent_of(number));
    return extents;
  });
}

// Reads whole records, without the GIL, each into a 1-D uint8 array that owns its memory. Raises
// the first error in the order of `extents`.
[[nodiscard]] py::list read_arrays(Fetcher& fetcher, const std::vector<Extent>& extents,
                                   bool check);

// Returns (number, exception) for each bad record.
[[nodiscard]] py::list to_list(const BadRecords& bad);

// The bytes of any contiguous bytes-like object; valid while this object lives.
class BytesView {
 public:
  explicit BytesView(py::handle object);
  BytesView(const BytesView&) = delete;
  BytesView& operator=(const BytesView&) = delete;
  ~BytesView() { PyBuffer_Release(&view_); }

  [[nodiscard]] std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

}  // namespace ffrfs::python
