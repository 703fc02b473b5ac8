// Volume, its Slice and MadeFile: a mounted tree, for PackedFolder, the commands and the pyfuse3
// engine. Its functions are described in py_volume.h, its TreePart in tree_part.h.

#include "volume/volume.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "python/convert.h"
#include "python/pack.h"
#include "python/py_volume.h"
#include "python/tree_part.h"
#include "volume/made_file.h"

namespace ffrfs::python {
namespace {

using VolumeClass = py::class_<PyVolume>;

py::bytes read_made(const MadeFile& file, uint64_t offset, uint64_t size) {
  const uint64_t left = offset < file.size() ? file.size() - offset : 0;
  const auto count = static_cast<py::ssize_t>(std::min(size, left));
  // No other code has the object yet, so it may be written to.
  const auto bytes = py::reinterpret_steal<py::bytes>(PyBytes_FromStringAndSize(nullptr, count));
  if (!bytes) throw py::error_already_set();
  auto* const memory = reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr()));
  if (count > 0) {
    const py::gil_scoped_release unlocked;
    file.read(offset, {memory, static_cast<size_t>(count)});
  }
  return bytes;
}

// Rendered files of a TFRecord's records, for code that copies them elsewhere.
void bind_made_file(py::module_& module) {
  py::class_<MadeFile>(module, "MadeFile")
      .def_property_readonly("size", &MadeFile::size)
      .def("read", &read_made, py::arg("offset"), py::arg("size"));
}

void bind_slice(py::module_& module) {
  py::class_<Slice>(module, "Slice", py::buffer_protocol())
      .def("__len__", [](const Slice& slice) { return slice.bytes.size(); })
      .def_buffer([](Slice& slice) {
        // An empty slice has no memory, and a buffer must have some address.
        static std::byte nothing{};
        auto* memory =
            slice.bytes.empty() ? &nothing : const_cast<std::byte*>(slice.bytes.data());
        return py::buffer_info(reinterpret_cast<uint8_t*>(memory),
                               static_cast<py::ssize_t>(slice.bytes.size()), /*readonly=*/true);
      });
}

void bind_opening(VolumeClass& volume) {
  // Keywords are the options' names (volume_options.cc); True and False become 1 and 0.
  const auto make = [](const std::vector<py::bytes>& paths, const py::kwargs& keywords) {
    VolumeOptions options;
    for (const auto& [name, value] : keywords) {
      const bool is_flag = py::isinstance<py::bool_>(value);
      const std::string text =
          is_flag ? (py::cast<bool>(value) ? "1" : "0") : py::cast<std::string>(py::str(value));
      options.set(py::cast<std::string>(name), text);
    }
    return std::make_unique<PyVolume>(std::vector<std::string>(paths.begin(), paths.end()),
                                      options);
  };
  volume.def(py::init(make), py::arg("paths"))
      .def("close", &PyVolume::close);
}

void bind_properties(VolumeClass& volume) {
  // A property that calls the open volume.
  const auto get = [](auto method) {
    return [method](const PyVolume& self) { return method(*self.open()); };
  };
  volume
      .def_property_readonly("is_folder",
                             get([](Volume& v) { return v.kind() == TreeKind::kFolder; }))
      .def_property_readonly("is_examples",
                             get([](Volume& v) { return v.kind() == TreeKind::kExamples; }))
      .def_property_readonly("file_count", get([](Volume& v) { return v.tree().file_count(); }))
      .def_property_readonly("directory_count",
                             get([](Volume& v) { return v.tree().directory_count(); }))
      .def_property_readonly("record_count", get([](Volume& v) { return v.shards().count(); }))
      .def_property_readonly("byte_count", get([](Volume& v) { return v.byte_count(); }))
      .def_property_readonly("paths", get([](Volume& v) {
                               std::vector<std::string> paths;
                               for (size_t i = 0; i < v.shards().shard_count(); ++i) {
                                 paths.push_back(v.shards().shard(i).file().path());
                               }
                               return to_bytes_list(paths);
                             }))
      .def_property_readonly("packs", [](const PyVolume& self) {
                               const auto opened = self.open();
                               py::list packs;
                               for (size_t i = 0; i < opened->shards().shard_count(); ++i) {
                                 packs.append(std::make_unique<PyPack>(opened, i));
                               }
                               return packs;
                             })
      .def_property_readonly("warnings", get([](Volume& v) {
                               py::list lines;
                               for (const std::string& line : v.warnings()) {
                                 lines.append(fs_text(line));
                               }
                               return lines;
                             }))
      .def_property_readonly("unverified_paths", get([](Volume& v) {
                               return to_bytes_list(v.unverified_paths());
                             }))
      .def_property_readonly("eventfd", get([](Volume& v) { return v.event_fd(); }));
}

// Functions that only an engine needs.
void bind_serving(VolumeClass& volume) {
  volume
      .def("load_tree",
           [](PyVolume& self, Ino ino, uint64_t token) {
             return self.load_tree(Need::kInode, ino, token);
           },
           py::arg("ino"), py::arg("token"))
      .def("load_directory",
           [](PyVolume& self, Ino ino, uint64_t token) {
             return self.load_tree(Need::kEntries, ino, token);
           },
           py::arg("ino"), py::arg("token"))
      .def("read", &PyVolume::read, py::arg("ino"), py::arg("offset"), py::arg("size"),
           py::arg("token"))
      .def("poll", &PyVolume::poll)
      .def("start_prefetch", &PyVolume::start_prefetch, py::arg("push"))
      .def("stop_prefetch", &PyVolume::stop_prefetch)
      .def("take_hints", &PyVolume::take_hints, py::arg("fd"))
      .def("limit_cache", &PyVolume::limit_cache, py::arg("limit_bytes"))
      .def("warm", &PyVolume::warm, py::arg("ino"))
      .def("limit_pushed", &PyVolume::limit_pushed, py::arg("limit_bytes"))
      .def("count_request",
           [](const PyVolume& self, const std::string& kind, uint64_t elapsed_ns) {
             return self.open()->note_request(RequestTimes::kind_of(kind), elapsed_ns);
           },
           py::arg("kind"), py::arg("elapsed_ns"))
      .def("describe_slow", &PyVolume::describe_slow, py::arg("kind"), py::arg("ino"),
           py::arg("elapsed_ns"))
      .def("note_failure", &PyVolume::note_failure, py::arg("ino"));
}

// Functions that may block.
void bind_reading(VolumeClass& volume) {
  volume.def("resolve", &PyVolume::resolve, py::arg("path"))
      .def("attributes", &PyVolume::attributes, py::arg("ino"))
      .def("list", &PyVolume::list, py::arg("ino"), py::arg("start"), py::arg("limit"))
      .def("stored", &PyVolume::stored, py::arg("ino"))
      .def("target", &PyVolume::target, py::arg("ino"))
      .def("record", &PyVolume::record, py::arg("ino"))
      .def("path", &PyVolume::path, py::arg("ino"))
      .def("file_of",
           [](const PyVolume& self, uint64_t record) {
             return self.open()->tree().file_of(record);
           },
           py::arg("record"))
      .def("read_wait", &PyVolume::read_wait, py::arg("ino"), py::arg("offset"), py::arg("size"))
      .def("read_files", &PyVolume::read_files, py::arg("inos"))
      .def("made_file", &PyVolume::made_file, py::arg("ino"))
      .def("find_too_deep", &PyVolume::find_too_deep, py::arg("ino"))
      .def("verify", &PyVolume::verify, py::arg("first"), py::arg("count"))
      .def("counter_page", &PyVolume::counter_page);
}

}  // namespace

void bind_volume(py::module_& module) {
  bind_slice(module);
  bind_made_file(module);
  bind_tree_part(module);
  VolumeClass volume(module, "Volume");
  bind_opening(volume);
  bind_properties(volume);
  bind_serving(volume);
  bind_reading(volume);
}

}  // namespace ffrfs::python
