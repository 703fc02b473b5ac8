// Volume and Slice: a mounted tree, for PackedFolder, the commands and the pyfuse3
// engine.

#include "volume/volume.h"

#include <pybind11/stl.h>

#include <atomic>
#include <mutex>

#include "python/convert.h"
#include "volume/verifier.h"

namespace ffrfs::python {
namespace {

// How long a blocking read sleeps before it looks whether Ctrl-C was pressed.
constexpr int kSignalCheckMs = 100;

struct Finished {
  uint64_t token;
  Slice slice;
  std::exception_ptr error;
};

// Reads that have finished and that nobody has collected yet. Callbacks of the core
// fill it, on whichever thread polls; no GIL there.
class FinishedReads {
 public:
  void add(Finished read) {
    const std::lock_guard lock(mutex_);
    reads_.push_back(std::move(read));
  }

  [[nodiscard]] std::vector<Finished> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reads_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Finished> reads_;
};

class PyVolume {
 public:
  PyVolume(const std::string& path, const VolumeOptions& options) : options_(options) {
    const py::gil_scoped_release unlocked;
    volume_ = std::make_shared<Volume>(path, options);
  }

  [[nodiscard]] std::shared_ptr<Volume> open() const {
    if (volume_) return volume_;
    throw py::value_error("the volume is closed");
  }

  void close() {
    const py::gil_scoped_release unlocked;
    volume_.reset();
  }

  [[nodiscard]] static py::object to_attributes(const Attributes& attributes) {
    return attributes_type()(attributes.ino, attributes.mode, attributes.nlink, attributes.uid,
                             attributes.gid, attributes.size, attributes.mtime_ns);
  }

  [[nodiscard]] py::object attributes(Ino ino) const {
    const auto attributes = open()->attributes(ino);
    return attributes ? to_attributes(*attributes) : py::none();
  }

  [[nodiscard]] py::list list(Ino ino, uint64_t start, uint64_t limit) const {
    const auto volume = open();
    py::list entries;
    for (const Dentry& entry : volume->tree().list(ino, start, limit)) {
      // The tree only lists what it has.
      entries.append(py::make_tuple(py::bytes(entry.name),
                                    to_attributes(*volume->attributes(entry.ino))));
    }
    return entries;
  }

  [[nodiscard]] py::object record(Ino ino) const {
    const auto volume = open();
    const auto inode = volume->tree().inode(ino);
    if (!inode || inode->is_directory) return py::none();
    return py::make_tuple(inode->record, volume->shards().extent(inode->record).crc32);
  }

  [[nodiscard]] py::object read(Ino ino, uint64_t offset, size_t size, uint64_t token) {
    const auto volume = open();
    std::optional<Slice> slice;
    {
      const py::gil_scoped_release unlocked;
      slice = volume->read(ino, offset, size,
                           [finished = finished_, token](Slice late, std::exception_ptr error) {
                             finished->add({token, std::move(late), error});
                           });
    }
    return slice ? py::cast(std::move(*slice)) : py::none();
  }

  [[nodiscard]] py::list poll() {
    const auto volume = open();
    std::vector<Finished> reads;
    {
      const py::gil_scoped_release unlocked;
      volume->poll();
      reads = finished_->take();
    }
    py::list list;
    for (Finished& read : reads) {
      list.append(py::make_tuple(read.token, read.error ? to_python(read.error)
                                                        : py::cast(std::move(read.slice))));
    }
    return list;
  }

  [[nodiscard]] Slice read_wait(Ino ino, uint64_t offset, size_t size) {
    struct Result {
      std::atomic<bool> ready{false};
      Slice slice;
      std::exception_ptr error;
    };
    const auto volume = open();
    auto result = std::make_shared<Result>();
    const py::gil_scoped_release unlocked;
    auto slice = volume->read(ino, offset, size, [result](Slice late, std::exception_ptr error) {
      result->slice = std::move(late);
      result->error = error;
      result->ready.store(true, std::memory_order_release);
    });
    if (slice) return std::move(*slice);
    while (!result->ready.load(std::memory_order_acquire)) {
      volume->wait(kSignalCheckMs);
      volume->poll();
      const py::gil_scoped_acquire locked;
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    if (result->error) std::rethrow_exception(result->error);
    return std::move(result->slice);
  }

  [[nodiscard]] py::list read_files(const py::sequence& inos) {
    const auto volume = open();
    std::vector<Extent> extents;
    for (const py::handle ino : inos) extents.push_back(volume->extent(to_index(ino)));
    return read_arrays(volume->batches(), extents, options_.check_data);
  }

  [[nodiscard]] py::list verify(uint64_t first, uint64_t count) {
    const auto volume = open();
    std::vector<std::pair<uint64_t, std::string>> bad;
    {
      const py::gil_scoped_release unlocked;
      bad = verify_records(volume->shards(), volume->batches(), volume->counters(), first, count);
    }
    return to_list(bad);
  }

  [[nodiscard]] py::bytes counter_page() const {
    const auto volume = open();
    const auto page = volume->counters().page().bytes();
    return {reinterpret_cast<const char*>(page.data()), page.size()};
  }

  // collections.namedtuple, made once: attributes are read by name in Python.
  [[nodiscard]] static py::object& attributes_type() {
    static auto* type = new py::object();  // never destroyed: the interpreter may be gone
    return *type;
  }

 private:
  const VolumeOptions options_;
  std::shared_ptr<Volume> volume_;
  std::shared_ptr<FinishedReads> finished_ = std::make_shared<FinishedReads>();
};

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

}  // namespace

void bind_volume(py::module_& module) {
  bind_slice(module);
  PyVolume::attributes_type() = py::module_::import("collections")
                                    .attr("namedtuple")("Attributes",
                                                        "ino mode nlink uid gid size mtime_ns",
                                                        py::arg("module") = "ffrfs._native");
  module.attr("Attributes") = PyVolume::attributes_type();

  const auto make = [](const std::string& path, uint32_t uid, uint32_t gid, uint32_t umask,
                       size_t cache_bytes, bool check_data) {
    return std::make_unique<PyVolume>(path,
                                      VolumeOptions{uid, gid, umask, cache_bytes, check_data});
  };
  // A property that asks the open volume.
  const auto get = [](auto method) {
    return [method](const PyVolume& self) { return method(*self.open()); };
  };
  py::class_<PyVolume>(module, "Volume")
      .def(py::init(make), py::arg("path"), py::kw_only(), py::arg("uid"), py::arg("gid"),
           py::arg("umask") = 0, py::arg("cache_bytes") = VolumeOptions{}.cache_bytes,
           py::arg("check_data") = true)
      .def_property_readonly("is_folder", get([](Volume& v) { return v.is_folder(); }))
      .def_property_readonly("file_count", get([](Volume& v) { return v.tree().file_count(); }))
      .def_property_readonly("directory_count",
                             get([](Volume& v) { return v.tree().directory_count(); }))
      .def_property_readonly("record_count", get([](Volume& v) { return v.shards().count(); }))
      .def_property_readonly("byte_count", get([](Volume& v) { return v.byte_count(); }))
      .def_property_readonly("metadata_verified", get([](Volume& v) {
                               return v.shards().shard(0).metadata_verified();
                             }))
      .def_property_readonly("eventfd", get([](Volume& v) { return v.event_fd(); }))
      .def("lookup",
           [](const PyVolume& self, Ino parent, const std::string& name) {
             return self.open()->tree().lookup(parent, name);
           },
           py::arg("parent"), py::arg("name"))
      .def("resolve",
           [](const PyVolume& self, const std::string& path) { return self.open()->resolve(path); },
           py::arg("path"))
      .def("attributes", &PyVolume::attributes, py::arg("ino"))
      .def("list", &PyVolume::list, py::arg("ino"), py::arg("start"), py::arg("limit"))
      .def("path",
           [](const PyVolume& self, Ino ino) { return py::bytes(self.open()->tree().path(ino)); },
           py::arg("ino"))
      .def("record", &PyVolume::record, py::arg("ino"))
      .def("file_of",
           [](const PyVolume& self, uint64_t record) {
             return self.open()->tree().file_of(record);
           },
           py::arg("record"))
      .def("read", &PyVolume::read, py::arg("ino"), py::arg("offset"), py::arg("size"),
           py::arg("token"))
      .def("poll", &PyVolume::poll)
      .def("read_wait", &PyVolume::read_wait, py::arg("ino"), py::arg("offset"), py::arg("size"))
      .def("read_files", &PyVolume::read_files, py::arg("inos"))
      .def("verify", &PyVolume::verify, py::arg("first"), py::arg("count"))
      .def("counter_page", &PyVolume::counter_page)
      .def("count_request",
           [](const PyVolume& self, const std::string& kind, uint64_t elapsed_ns) {
             self.open()->request_times().add(RequestTimes::kind_of(kind), elapsed_ns);
           },
           py::arg("kind"), py::arg("elapsed_ns"))
      .def("failure_is_due",
           [](const PyVolume& self, Ino ino) { return self.open()->failures().due(ino); },
           py::arg("ino"))
      .def("close", &PyVolume::close);
}

}  // namespace ffrfs::python
