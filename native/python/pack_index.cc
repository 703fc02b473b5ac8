// PackIndex: the mapped index that serves a pack, for info, verify and those who make
// sidecars; where sidecars lie; and what lies at a path, before it is opened.

#include <pybind11/stl.h>

#include <array>
#include <cstring>
#include <memory>

#include "io/error.h"
#include "open/index_check.h"
#include "open/open_shards.h"
#include "python/convert.h"
#include "python/pack_index.h"
#include "record/header_layout.h"
#include "record/sidecar_path.h"

namespace ffrfs::python {
namespace {

bool ends_with_folder(const FfrecordShard& shard) {
  if (shard.count() == 0) return false;
  const Extent last = shard.extent(shard.count() - 1);
  std::array<char, kFolderMagic.size()> begin{};
  if (last.size < begin.size()) return false;
  shard.file().read_fully(last.offset, std::as_writable_bytes(std::span(begin)));
  return std::string_view(begin.data(), begin.size()) == kFolderMagic;
}

py::list to_list(const std::vector<std::string>& paths) {
  py::list list;
  for (const std::string& path : paths) list.append(py::bytes(path));
  return list;
}

}  // namespace

PackIndex::PackIndex(const std::string& path) {
  const py::gil_scoped_release unlocked;
  shard_ = std::make_unique<FfrecordShard>(path, IndexUse::kIfSound);
  is_folder_ = shard_->index() != nullptr || ends_with_folder(*shard_);
}

std::string PackIndex::kind() const {
  if (shard_->index() == nullptr) return "";
  return shard_->index()->is_sidecar() ? "sidecar" : "pack";
}

py::object PackIndex::path() const {
  if (shard_->index() == nullptr) return py::none();
  return py::bytes(shard_->index()->path());
}

uint64_t PackIndex::size_bytes() const {
  return shard_->index() == nullptr ? 0 : shard_->index()->index_size();
}

py::object PackIndex::set() const {
  if (shard_->index() == nullptr) return py::none();
  const auto set = shard_->index()->set();
  if (!set) return py::none();
  const auto* id = reinterpret_cast<const char*>(set->id.data());
  return py::make_tuple(py::bytes(id, set->id.size()), set->number, set->count);
}

std::string PackIndex::find_fault() const {
  if (shard_->index() == nullptr) return "";
  const ShardSet plain = open_ffrecord_shards({shard_->file().path()});
  Counters counters;
  return find_index_fault(*shard_, plain, counters);
}

std::vector<uint32_t> PackIndex::chunk_checksums(uint64_t record) const noexcept {
  try {
    return shard_->chunk_checksums(record);
  } catch (const std::exception&) {
    return {};  // find_fault() tells it
  }
}

void bind_pack_index(py::module_& module) {
  py::class_<PackIndex>(module, "PackIndex")
      .def(py::init<const std::string&>(), py::arg("pack"))
      .def_property_readonly("is_folder", &PackIndex::is_folder)
      .def_property_readonly("record_count", &PackIndex::record_count)
      .def_property_readonly("kind", &PackIndex::kind)
      .def_property_readonly("path", &PackIndex::path)
      .def_property_readonly("size_bytes", &PackIndex::size_bytes)
      .def_property_readonly("shard", &PackIndex::set)
      .def_property_readonly("warning", &PackIndex::warning)
      .def_property_readonly("warning_within", &PackIndex::warning_within)
      .def_property_readonly("is_stale", &PackIndex::is_stale)
      .def("find_fault", [](const PackIndex& self) {
        std::string fault;
        {
          const py::gil_scoped_release unlocked;
          fault = self.find_fault();
        }
        return fs_text(fault);
      });

  module.def(
      "sidecar_paths",
      [](const std::string& pack) {
        return to_list(index_sidecar_paths(pack));
      },
      py::arg("pack"));

  module.def(
      "record_files",
      [](const std::vector<std::string>& paths) {
        RecordFiles found;
        {
          const py::gil_scoped_release unlocked;
          found = find_record_files(paths);
        }
        return to_list(found.paths);
      },
      py::arg("paths"));
  module.def(
      "folder_files",
      [](const std::string& folder) {
        FolderFiles found;
        {
          const py::gil_scoped_release unlocked;
          found = files_in(folder);
        }
        return py::make_tuple(to_list(found.packs), to_list(found.tfrecords));
      },
      py::arg("folder"));
  module.def("is_tfrecord", &is_tfrecord, py::arg("path"),
             py::call_guard<py::gil_scoped_release>());
  module.def(
      "claimed_records",
      [](const std::string& path) {
        const SourceFile file(path);
        const uint64_t count = claimed_record_count(file).value_or(0);
        return std::pair(count, count == 0 ? 0 : file.size() - ffrecord_header_size(count));
      },
      py::arg("path"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace ffrfs::python
