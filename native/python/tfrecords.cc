// TFRecords: TFRecord files as one index space, for TFRecordReader; TFRecordScan: one of them from
// front to end, for FileScan. Both fill the bytes objects that they return.

#include <pybind11/stl.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "python/open_records.h"
#include "remote/remote_opener.h"
#include "tfrecord/frame_buffer.h"
#include "tfrecord/sidecar.h"
#include "tfrecord/tfrecord_scan.h"
#include "tfrecord/tfrecord_shard.h"

namespace ffrfs::python {
namespace {

// Makes malloc keep freed memory, as in any program that has once freed an array of 32 MB: from the
// size of the largest freed block on, the C library maps memory from the kernel, and unmaps it when
// it is freed (mallopt(3), M_MMAP_THRESHOLD). Otherwise every record of 100 KB would be in new
// memory, and page faults would take longer than reading it. Limits that the user has set are left
// alone.
void keep_freed_memory_warm() {
  constexpr size_t kDynamicLimit = size_t{32} << 20;
  constexpr size_t kPageSize = 4096;
  [[maybe_unused]] static const bool done = [] {
    // With its header, in whole pages, and with two flags in its size, it must be below the limit.
    // volatile, because it would be optimised away.
    void* volatile memory = std::malloc(kDynamicLimit - 2 * kPageSize);
    std::free(memory);
    return true;
  }();
}

// Returns a bytes object that must be filled before other code sees it.
py::bytes unfilled_bytes(uint64_t size) {
  PyObject* object = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(object);
}

std::span<std::byte> memory_of(const py::bytes& object) {
  return {reinterpret_cast<std::byte*>(PyBytes_AS_STRING(object.ptr())),
          static_cast<size_t>(PyBytes_GET_SIZE(object.ptr()))};
}

class PyTfrecordScan {
 public:
  PyTfrecordScan(std::shared_ptr<const Source> file, bool check_data)
      : scan_(std::make_unique<TfrecordScan>(std::move(file), check_data)) {
    keep_freed_memory_warm();
  }

  [[nodiscard]] static std::unique_ptr<PyTfrecordScan> open(const std::string& path,
                                                            bool check_data) {
    std::shared_ptr<const Source> file = unlocked([&] { return remote::open_source(path); });
    return std::make_unique<PyTfrecordScan>(std::move(file), check_data);
  }

  [[nodiscard]] py::list next() {
    const InUse in_use(*this);
    const auto found = unlocked([&] { return scan_->next(); });
    if (found.empty()) return py::list();
    return found[0].bytes != nullptr ? copy(found) : read(found);
  }

  void close() {
    if (scan_) {
      const InUse in_use(*this);
      scan_.reset();
    }
  }

 private:
  // Allows one thread at a time: a second one gets an error, as from a generator. Needs the GIL.
  class InUse {
   public:
    explicit InUse(PyTfrecordScan& scan) : scan_(scan) {
      if (!scan.scan_) throw py::value_error("the scan is closed");
      if (scan.in_use_) throw py::value_error("the scan is being read by another thread");
      scan.in_use_ = true;
    }
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;
    ~InUse() { scan_.in_use_ = false; }

   private:
    PyTfrecordScan& scan_;
  };

  [[nodiscard]] static py::list copy(std::span<const TfrecordScan::Record> found) {
    py::list records(found.size());
    for (size_t i = 0; i < found.size(); ++i) {
      records[i] = py::bytes(reinterpret_cast<const char*>(found[i].bytes),
                             static_cast<size_t>(found[i].size));
    }
    return records;
  }

  [[nodiscard]] py::list read(std::span<const TfrecordScan::Record> found) {
    std::vector<py::bytes> records;
    std::vector<std::span<std::byte>> targets;
    for (const TfrecordScan::Record& record : found) {
      records.push_back(unfilled_bytes(record.size));
      targets.push_back(memory_of(records.back()));
    }
    const auto good_count = unlocked([&] { return scan_->read(targets); });
    py::list good(good_count);
    for (size_t i = 0; i < good_count; ++i) good[i] = std::move(records[i]);
    return good;
  }

  bool in_use_ = false;
  std::unique_ptr<TfrecordScan> scan_;
};

class TFRecords : public OpenRecords<TfrecordShard> {
 public:
  TFRecords(const std::vector<std::string>& paths, bool check_data, bool sidecar)
      : OpenRecords([&] { return open_tfrecord_shards(paths, sidecar); }), check_data_(check_data) {
    keep_freed_memory_warm();
  }

  [[nodiscard]] py::list read(const py::sequence& indices) const {
    const auto open_now = open();
    py::list records;
    std::vector<BatchItem> items;
    const auto extents =
        extents_of(indices, [&](uint64_t index) { return open_now->shards.extent(index); });
    for (const Extent& extent : extents) {
      const py::bytes record = unfilled_bytes(extent.size);
      items.push_back({extent, memory_of(record), nullptr});
      records.append(record);
    }
    unlocked([&] { open_now->fetcher.get().read(items, check_data_); });
    for (const BatchItem& item : items) {
      if (item.error) raise(item.error);
    }
    return records;
  }

  [[nodiscard]] std::unique_ptr<PyTfrecordScan> scan(size_t shard) const {
    const auto open_now = open();
    const Source& file = open_now->file(shard).file();
    return std::make_unique<PyTfrecordScan>(std::shared_ptr<const Source>(open_now, &file),
                                            check_data_);
  }

  [[nodiscard]] py::bytes index_text(size_t shard, uint64_t first, uint64_t count) const {
    const auto open_now = open();
    const TfrecordShard& file = open_now->file(shard);
    if (first >= file.count()) return "";
    count = std::min(count, file.count() - first);
    return unlocked([&] { return sidecar_text(file.offsets().subspan(first, count + 1)); });
  }

 private:
  const bool check_data_;
};

// Keeps the GIL, because records that take long to checksum are refused.
bool append_frame(FrameBuffer& frames, const py::object& record) {
  if (PyUnicode_Check(record.ptr()) == 0) return frames.append(BytesView(record).bytes());
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(record.ptr(), &size);
  if (text == nullptr) throw py::error_already_set();
  return frames.append(std::as_bytes(std::span(text, static_cast<size_t>(size))));
}

}  // namespace

void bind_tfrecords(py::module_& module) {
  py::class_<FrameBuffer>(module, "Frames")
      .def(py::init<size_t>(), py::arg("capacity"))
      .def("append", &append_frame, py::arg("record"))
      .def("bytes",
           [](const FrameBuffer& frames) {
    const auto bytes = frames.bytes();
    return py::memoryview::from_memory(bytes.data(), std::ssize(bytes));
  }, py::keep_alive<0, 1>())
      .def("clear", &FrameBuffer::clear);
  py::class_<PyTfrecordScan>(module, "TFRecordScan")
      .def(py::init(&PyTfrecordScan::open), py::arg("path"), py::arg("check_data") = true)
      .def("read", &PyTfrecordScan::next)
      .def("close", &PyTfrecordScan::close);
  py::class_<TFRecords>(module, "TFRecords")
      .def(py::init<const std::vector<std::string>&, bool, bool>(), py::arg("paths"),
           py::arg("check_data") = true, py::arg("sidecar") = true)
      .def_property_readonly("count", &TFRecords::count)
      .def_property_readonly("counts", &TFRecords::counts)
      .def_property_readonly("mtimes_ns",
                             [](const TFRecords& records) {
    return records.of_each_file([](const TfrecordShard& file) { return file.file().mtime_ns(); });
  })
      .def_property_readonly("used_sidecars",
                             [](const TFRecords& records) {
    return records.of_each_file([](const TfrecordShard& file) { return file.used_sidecar(); });
  })
      .def("read", &TFRecords::read, py::arg("indices"))
      .def("scan", &TFRecords::scan, py::arg("shard"))
      .def("offsets", &TFRecords::offsets, py::arg("shard"))
      .def("index_text", &TFRecords::index_text, py::arg("shard"), py::arg("first"),
           py::arg("count"))
      .def("verify", &TFRecords::verify, py::arg("first"), py::arg("count"))
      .def("close", &TFRecords::close);
}

}  // namespace ffrfs::python
