// write_sidecar: the index of a pack that has only a pickle, in a file of its own.

#include "open/sidecar_writer.h"

#include "python/convert.h"

namespace ffrfs::python {

void bind_sidecar(py::module_& module) {
  module.def(
      "write_sidecar",
      [](const std::string& pack, const std::string& target, bool chunks) {
        const py::gil_scoped_release unlocked;
        Counters counters;
        write_sidecar(pack, target, chunks, counters);
      },
      py::arg("pack"), py::arg("target"), py::arg("chunks"));
}

}  // namespace ffrfs::python
