// ffrfs._native: the core for Python. Types and documentation are in _native.pyi.
//
// All pybind11 code is in this directory. Rules: the GIL is released around calls that may block or
// take over 20 µs, no Python object is touched without it, and no Python type reaches the core.

#include <pybind11/pybind11.h>

#include "io/crc.h"
#include "python/convert.h"

namespace ffrfs::python {
namespace {

// Below this, releasing the GIL costs more than the checksum.
constexpr size_t kWorthReleasingToHash = 64 << 10;

template <uint32_t (*Checksum)(std::span<const std::byte>, uint32_t)>
uint32_t checksum(const py::object& data, uint32_t seed) {
  const BytesView view(data);
  if (view.bytes().size() < kWorthReleasingToHash) return Checksum(view.bytes(), seed);
  const Unlocked unlocked;
  return Checksum(view.bytes(), seed);
}

void translate(std::exception_ptr error) {
  if (!error) return;
  try {
    std::rethrow_exception(error);
  } catch (const py::builtin_exception&) {
    throw;  // pybind11's own
  } catch (const py::error_already_set&) {
    throw;
  } catch (...) {
    const py::object exception = to_python(error);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  }
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  py::register_exception_translator(&translate);
  bind_examples(module);
  bind_entry_list(module);
  bind_pack(module);
  bind_records(module);
  bind_remote(module);
  bind_sidecar(module);
  bind_tfrecords(module);
  bind_volume(module);
  bind_writer(module);
  module.def("crc32", &checksum<&ffrfs::crc32>, py::arg("data"), py::arg("seed") = 0);
  module.def("crc32c", &checksum<&ffrfs::crc32c>, py::arg("data"), py::arg("seed") = 0);
}

}  // namespace ffrfs::python
