// Writer: one FFRecord file being written, for FileWriter and pack_folder.

#include "record/writer.h"

#include <pybind11/stl.h>

#include <memory>

#include "python/convert.h"

namespace ffrfs::python {
namespace {

std::unique_ptr<Writer> make_writer(const std::string& path, uint64_t count) {
  const py::gil_scoped_release unlocked;
  return std::make_unique<Writer>(path, count);
}

void append(Writer& writer, const py::object& data) {
  const BytesView view(data);
  const py::gil_scoped_release unlocked;
  writer.append(view.bytes());
}

// [(path, size)] of Python; pairs of anything else are refused by pybind11.
std::vector<FileToPack> to_files(const py::sequence& pairs) {
  std::vector<FileToPack> files;
  files.reserve(pairs.size());
  for (const py::handle pair : pairs) {
    const auto [path, size] = pair.cast<std::pair<std::string, uint64_t>>();
    files.push_back({path, size});
  }
  return files;
}

void append_files(Writer& writer, const py::sequence& pairs, size_t jobs,
                  const py::object& progress) {
  const std::vector<FileToPack> files = to_files(pairs);
  // Called without the GIL, about ten times a second: the time to show progress and to
  // notice Ctrl-C. What is thrown here stops the threads of the writer.
  const auto tick = [&progress](uint64_t done_files, uint64_t done_bytes) {
    const py::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!progress.is_none()) progress(done_files, done_bytes);
  };
  const py::gil_scoped_release unlocked;
  writer.append_files(files, jobs, tick);
}

}  // namespace

void bind_writer(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> unlocked;
  py::class_<Writer>(module, "Writer")
      .def(py::init(&make_writer), py::arg("path"), py::arg("count"))
      .def_property_readonly("count", &Writer::count)
      .def_property_readonly("written", &Writer::written)
      .def("append", &append, py::arg("data"))
      .def("append_files", &append_files, py::arg("files"), py::arg("jobs"),
           py::arg("progress") = py::none())
      .def("finish", &Writer::finish, unlocked)
      .def("abort", &Writer::abort, unlocked);
}

}  // namespace ffrfs::python
