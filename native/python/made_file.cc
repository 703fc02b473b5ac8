// MadeFile: what a TFRecord's record does not hold as it is, for those who write it elsewhere.
// Volume.made_file() makes them.

#include "volume/made_file.h"

#include <algorithm>
#include <memory>

#include "python/convert.h"

namespace ffrfs::python {
namespace {

py::bytes read(const MadeFile& file, uint64_t offset, uint64_t size) {
  const uint64_t left = offset < file.size() ? file.size() - offset : 0;
  const auto count = static_cast<py::ssize_t>(std::min(size, left));
  // No other code has it yet: it may be written to.
  const auto bytes = py::reinterpret_steal<py::bytes>(PyBytes_FromStringAndSize(nullptr, count));
  if (!bytes) throw py::error_already_set();
  auto* const memory = reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr()));
  if (count > 0) {
    const py::gil_scoped_release unlocked;
    file.read(offset, {memory, static_cast<size_t>(count)});
  }
  return bytes;
}

}  // namespace

void bind_made_file(py::module_& module) {
  py::class_<MadeFile>(module, "MadeFile")
      .def_property_readonly("size", &MadeFile::size)
      .def("read", &read, py::arg("offset"), py::arg("size"));
}

}  // namespace ffrfs::python
