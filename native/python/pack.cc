// Pack: one FFRecord file, for `info`, `verify` and the making of sidecars.

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>

#include "io/error.h"
#include "open/index_check.h"
#include "python/convert.h"
#include "python/pack.h"
#include "record/header_layout.h"
#include "remote/remote_opener.h"
#include "scrub/scrub.h"

namespace ffrfs::python {
namespace {

bool ends_with_folder(const FfrecordShard& shard) {
  return shard.count() > 0 && is_index_record(shard.file(), shard.extent(shard.count() - 1));
}

}  // namespace

PyPack::PyPack(const std::string& path)
    : own_(unlocked([&] { return std::make_shared<const Pack>(remote::open_source(path)); })),
      shard_(own_, &own_->shard()) {}

PyPack::PyPack(const std::shared_ptr<Volume>& volume, size_t number)
    : shard_(volume, &dynamic_cast<const FfrecordShard&>(volume->shards().shard(number))) {}

bool PyPack::is_folder() const {
  const Unlocked unlocked;
  return shard_->index() != nullptr || ends_with_folder(*shard_);
}

std::string PyPack::index_kind() const {
  if (shard_->index() == nullptr) return "";
  return shard_->index()->is_sidecar() ? "sidecar" : "pack";
}

py::object PyPack::index_path() const {
  if (shard_->index() == nullptr) return py::none();
  return py::bytes(shard_->index()->path());
}

uint64_t PyPack::index_size_bytes() const {
  return shard_->index() == nullptr ? 0 : shard_->index()->index_size();
}

py::object PyPack::set() const {
  if (shard_->index() == nullptr) return py::none();
  const auto set = shard_->index()->set();
  if (!set) return py::none();
  const auto* id = reinterpret_cast<const char*>(set->id.data());
  return py::make_tuple(py::bytes(id, set->id.size()), set->number, set->count);
}

const ShardSet& PyPack::header() {
  const Unlocked unlocked;
  const std::lock_guard lock(mutex_);
  if (!header_) header_.emplace(open_header(*shard_));
  return *header_;
}

const FfrecordShard& PyPack::header_shard() {
  return static_cast<const FfrecordShard&>(header().shard(0));
}

py::array_t<int64_t> PyPack::offsets() {
  const auto values = header_shard().offsets();
  return py::array_t<int64_t>(static_cast<py::ssize_t>(values.size()),
                              reinterpret_cast<const int64_t*>(values.data()));
}

uint64_t PyPack::offset(uint64_t record) {
  const auto values = header_shard().offsets();
  if (record >= values.size()) throw py::index_error("no such record");
  return values[record];
}

std::array<uint64_t, 5> PyPack::size_summary(const std::vector<PyPack*>& packs, bool are_folders) {
  std::vector<std::span<const uint64_t>> offsets;
  for (PyPack* pack : packs) offsets.push_back(pack->header_shard().offsets());
  return unlocked([&]() -> std::array<uint64_t, 5> {
    std::vector<uint64_t> sizes;
    for (const auto of_pack : offsets) {
      for (size_t i = 1; i + (are_folders ? 1 : 0) < of_pack.size(); ++i) {
        sizes.push_back(of_pack[i] - of_pack[i - 1]);
      }
    }
    if (sizes.empty()) return {};
    std::ranges::sort(sizes);
    const size_t count = sizes.size();
    const uint64_t sum = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
    const uint64_t median = (sizes[(count - 1) / 2] + sizes[count / 2]) / 2;
    return {count, sum, sizes.front(), median, sizes.back()};
  });
}

py::str PyPack::find_fault() {
  if (shard_->index() == nullptr) return "";
  const ShardSet& plain = header();
  const auto fault = unlocked([&] { return find_index_fault(*shard_, plain, counters_); });
  return fs_text(fault);
}

Fetcher& PyPack::fetcher() {
  const ShardSet& plain = header();
  const Unlocked unlocked;
  const std::lock_guard lock(mutex_);
  if (!fetcher_) fetcher_ = std::make_unique<Fetcher>(plain, counters_);
  return *fetcher_;
}

py::list PyPack::verify(uint64_t first, uint64_t count, size_t jobs) {
  Fetcher& records = fetcher();
  const auto chunk_checksums = [this](uint64_t record) -> std::vector<uint32_t> {
    try {
      return shard_->chunk_checksums(record);
    } catch (const std::exception&) {
      return {};  // find_fault() reports it
    }
  };
  return to_list(
      unlocked([&] { return scrub_records(records, first, count, jobs, chunk_checksums); }));
}

void PyPack::open_tree() {
  if (!own_) throw py::value_error("the tree is the volume's");
  const Unlocked unlocked;
  const std::lock_guard lock(mutex_);
  if (!tree_) tree_ = own_->open_tree(counters_).tree;
}

const Tree& PyPack::tree() {
  const Unlocked unlocked;
  const std::lock_guard lock(mutex_);
  if (!tree_) throw std::invalid_argument("the tree is not open");
  return *tree_;
}

py::object PyPack::path_of(uint64_t record) {
  const Tree& paths = tree();
  const std::string path = unlocked([&] {
    const Ino ino = paths.file_of(record);
    return ino == 0 ? std::string() : paths.path(ino);
  });
  return path.empty() ? py::none() : py::object(py::bytes(path));
}

void bind_pack(py::module_& module) {
  py::class_<PyPack>(module, "Pack")
      .def(py::init<const std::string&>(), py::arg("path"))
      .def_property_readonly("is_folder", &PyPack::is_folder)
      .def_property_readonly("record_count", &PyPack::record_count)
      .def_property_readonly("index_kind", &PyPack::index_kind)
      .def_property_readonly("index_path", &PyPack::index_path)
      .def_property_readonly("index_size_bytes", &PyPack::index_size_bytes)
      .def_property_readonly("shard", &PyPack::set)
      .def_property_readonly("warning", &PyPack::warning)
      .def_property_readonly("warning_within", &PyPack::warning_within)
      .def_property_readonly("is_index_stale", &PyPack::is_index_stale)
      .def_property_readonly("header_verified", &PyPack::header_verified)
      .def("offsets", &PyPack::offsets)
      .def("offset", &PyPack::offset, py::arg("record"))
      .def_static("size_summary", &PyPack::size_summary, py::arg("packs"), py::arg("are_folders"))
      .def("find_fault", &PyPack::find_fault)
      .def("verify", &PyPack::verify, py::arg("first"), py::arg("count"), py::arg("jobs") = 0)
      .def("open_tree", &PyPack::open_tree)
      .def("path_of", &PyPack::path_of, py::arg("record"));
}

}  // namespace ffrfs::python
