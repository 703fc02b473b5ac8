// Records: FFRecord files as one index space, for FileReader.

#include <pybind11/stl.h>

#include "python/open_records.h"
#include "record/ffrecord_shard.h"

namespace ffrfs::python {
namespace {

class Records : public OpenRecords<FfrecordShard> {
 public:
  Records(const std::vector<std::string>& paths, bool check_data)
      : OpenRecords([&] { return open_ffrecord_shards(paths); }), check_data_(check_data) {}

  [[nodiscard]] py::list unverified_paths() const {
    return to_bytes_list(open()->shards.unverified_paths());
  }

  [[nodiscard]] py::list read(const py::sequence& indices) const {
    const auto open_now = open();
    const auto extents =
        extents_of(indices, [&](uint64_t index) { return open_now->shards.extent(index); });
    return read_arrays(open_now->fetcher.get(), extents, check_data_);
  }

  [[nodiscard]] py::array_t<uint32_t> checksums(size_t shard) const {
    const auto open_now = open();
    const auto values = open_now->file(shard).checksums();
    return py::array_t<uint32_t>(static_cast<py::ssize_t>(values.size()), values.data());
  }

 private:
  const bool check_data_;
};

}  // namespace

void bind_records(py::module_& module) {
  py::class_<Records>(module, "Records")
      .def(py::init<const std::vector<std::string>&, bool>(), py::arg("paths"),
           py::arg("check_data") = true)
      .def_property_readonly("count", &Records::count)
      .def_property_readonly("counts", &Records::counts)
      .def_property_readonly("unverified_paths", &Records::unverified_paths)
      .def("read", &Records::read, py::arg("indices"))
      .def("offsets", &Records::offsets, py::arg("shard"))
      .def("checksums", &Records::checksums, py::arg("shard"))
      .def("verify", &Records::verify, py::arg("first"), py::arg("count"))
      .def("close", &Records::close);
}

}  // namespace ffrfs::python
