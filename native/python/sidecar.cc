// write_sidecar and the paths of sidecars: the index of a pack that has only a pickle, in a file of
// its own; and the files behind the paths that a user names.

#include "open/sidecar_writer.h"

#include <pybind11/stl.h>

#include <span>

#include "open/open_shards.h"
#include "python/convert.h"
#include "record/ffrecord_shard.h"
#include "record/header_layout.h"
#include "record/sidecar_path.h"
#include "remote/remote_opener.h"
#include "shard/cached_index.h"

namespace ffrfs::python {
namespace {

void bind_paths(py::module_& module) {
  module.def("record_files", [](const std::vector<std::string>& paths) {
    const auto found = unlocked([&] { return find_record_files(paths); });
    return to_bytes_list(found.paths);
  }, py::arg("paths"));
  module.def("folder_files", [](const std::string& folder) {
    const auto found = unlocked([&] { return files_in(folder); });
    return py::make_tuple(to_bytes_list(found.packs), to_bytes_list(found.tfrecords));
  }, py::arg("folder"));
  module.def("is_pack_name", &is_pack_name, py::arg("name"));
  module.def("header_checksum", [](const std::string& begin) {
    return stored_header_checksum(std::as_bytes(std::span(begin)));
  }, py::arg("begin"));
  module.def("is_tfrecord", [](const std::string& path) { return is_tfrecord(path); },
             py::arg("path"), py::call_guard<Unlocked>());
  module.def("claimed_records", [](const std::string& path) {
    const auto file = remote::open_source(path);
    const uint64_t count = claimed_record_count(*file).value_or(0);
    return std::pair(count, count == 0 ? 0 : file->size() - ffrecord_header_size(count));
  }, py::arg("path"), py::call_guard<Unlocked>());
}

}  // namespace

void bind_sidecar(py::module_& module) {
  module.def("write_sidecar", [](const std::string& pack, const std::string& target, bool chunks) {
    const Unlocked unlocked;
    Counters counters;
    write_sidecar(pack, target, chunks, counters);
  }, py::arg("pack"), py::arg("target"), py::arg("chunks"));
  module.def("cached_index_path", [](const std::string& file) {
    const auto path = unlocked([&] { return cached_index_path(file); });
    return py::bytes(path);
  }, py::arg("file"));
  module.def("sidecar_paths", [](const std::string& pack) {
    const auto paths = unlocked([&] { return index_sidecar_paths(pack); });
    return to_bytes_list(paths);
  }, py::arg("pack"));
  bind_paths(module);
}

}  // namespace ffrfs::python
