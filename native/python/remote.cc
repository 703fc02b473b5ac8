// set_remote: sets the callable that brings links to a fetcher, for all URLs in this process. The
// callable may be called on a thread of the core. A forked child calls it again.
// replace_link: brings a link to another fetcher, before a request needs it.
// Source: the bytes that a URL or a path names.

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "io/file_descriptor.h"
#include "io/source.h"
#include "io/wait_check.h"
#include "python/convert.h"
#include "remote/remote_error.h"
#include "remote/remote_opener.h"

namespace ffrfs::python {
namespace {

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Before 3.14, an ending Python also ends a thread that waits for the GIL inside Python code (see
// gil.cc): it unwinds the stack, and that must not meet a `catch (...)` that continues.
py::object call_or_stay(const py::object& function) {
  PyObject* result = nullptr;
  try {
    result = PyObject_CallNoArgs(function.ptr());
  } catch (...) {
    while (true) pause();
  }
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

// Must be called without the GIL.
FileDescriptor ask_for_link(const py::object& get_link) {
  // During finalization, a thread that takes the GIL never returns.
  if (is_finalizing()) throw remote::RemoteError("RemoteError", "", "the program is ending");
  const py::gil_scoped_acquire locked;
  try {
    return FileDescriptor(py::cast<int>(call_or_stay(get_link)));
  } catch (py::error_already_set& error) {
    // Converted, because it may be kept, and thrown where the GIL is not held.
    throw remote::RemoteError(py::cast<std::string>(error.type().attr("__name__")), "",
                              py::cast<std::string>(py::str(error.value())), true);
  }
}

// Lets Ctrl-C interrupt a wait in the main thread.
void check_signals() {
  if (is_finalizing()) return;
  const py::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) {
    throw Interrupted{std::make_exception_ptr(py::error_already_set())};
  }
}

void set_remote(const py::object& get_link, double timeout_s) {
  // Without the GIL, because a thread of the previous opener may need it to end.
  const auto set = [](std::shared_ptr<remote::RemoteOpener> opener) {
    const Unlocked unlocked;
    remote::set_opener(std::move(opener));
  };
  if (get_link.is_none()) return set(nullptr);
  const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(timeout_s));
  // Never destroyed, because that needs the GIL, wherever it happens.
  const auto* const kept = new py::object(get_link);
  auto opener =
      std::make_shared<remote::RemoteOpener>([kept] { return ask_for_link(*kept); }, timeout);
  set_wait_check(check_signals);
  set(std::move(opener));
}

void replace_link(int link) {
  // Without the GIL, because the opener calls `get_link` if it has no link yet.
  unlocked([&] {
    FileDescriptor owned(link);
    if (const auto opener = remote::opener()) opener->replace(std::move(owned));
  });
}

struct PySource {
  std::shared_ptr<const Source> file;
  bool has_failed = false;
};

size_t read_into(PySource& source, uint64_t offset, const py::buffer& target) {
  const Source& file = *source.file;
  const py::buffer_info memory = target.request(true);  // keeps the memory where it is
  if (memory.ndim != 1 || memory.itemsize != 1 || memory.strides[0] != 1) {
    throw py::value_error("not an array of bytes");
  }
  const uint64_t left = file.size() - std::min(offset, file.size());
  const auto size = static_cast<size_t>(std::min(left, static_cast<uint64_t>(memory.size)));
  unlocked([&] {
    // Another reader's failure counts for a second, but a caller may try again at once.
    if (std::exchange(source.has_failed, true)) refetch_and_wait(file, offset, 1);
    file.read_fully(offset, {static_cast<std::byte*>(memory.ptr), size});
    source.has_failed = false;
  });
  return size;
}

}  // namespace

void bind_remote(py::module_& module) {
  py::class_<PySource>(module, "Source")
      .def(py::init([](const std::string& path) {
    return PySource{unlocked([&] { return remote::open_source(path); })};
  }),
           py::arg("path"))
      .def_property_readonly("size", [](const PySource& source) {
    return source.file->size();
  }).def("read_into", &read_into, py::arg("offset"), py::arg("target"));
  module.def("set_remote", &set_remote, py::arg("get_link"), py::arg("timeout_s"));
  module.def("replace_link", &replace_link, py::arg("link"));
}

}  // namespace ffrfs::python
