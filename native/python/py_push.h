// Calls a Python function that pushes bytes to the kernel (PushPages).

#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "tree/tree.h"

namespace ffrfs::python {

namespace py = pybind11;

// Bytes that Python may access while this object lives. Views of the view may outlive it, so the
// function must not keep any.
class LentView {
 public:
  explicit LentView(std::span<const std::byte> bytes)
      : view_(py::memoryview::from_memory(bytes.data(), static_cast<py::ssize_t>(bytes.size()))) {}
  LentView(const LentView&) = delete;
  LentView& operator=(const LentView&) = delete;
  ~LentView() {
    try {
      view_.attr("release")();
    } catch (py::error_already_set& error) {  // a view of its bytes still exists
      error.discard_as_unraisable("the end of a push");
    }
  }

  [[nodiscard]] const py::memoryview& view() const { return view_; }

 private:
  const py::memoryview view_;
};

// A Python function that pushes, for threads of the volume.
class PyPush {
 public:
  explicit PyPush(py::function push)
      : push_(new py::function(std::move(push)), [](py::function* last) {
          const py::gil_scoped_acquire locked;
          delete last;
        }) {}

  // Reports exceptions and drops them, because nothing depends on a push.
  bool operator()(Ino ino, uint64_t offset, std::span<const std::byte> bytes) const {
    const py::gil_scoped_acquire locked;
    try {
      const LentView lent(bytes);
      return py::bool_((*push_)(ino, offset, lent.view()));
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable(*push_);
    } catch (const std::exception&) {  // out of memory for the view
    }
    return false;
  }

 private:
  std::shared_ptr<py::function> push_;  // one, shared by all copies
};

}  // namespace ffrfs::python
