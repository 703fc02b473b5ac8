// Volume, its TreePart and Slice: a mounted tree, for PackedFolder, the commands and the
// pyfuse3 engine.

#include "volume/volume.h"

#include <pybind11/stl.h>
#include <sys/stat.h>

#include <chrono>
#include <mutex>
#include <span>
#include <variant>

#include "io/error.h"
#include "io/file_descriptor.h"
#include "python/array_memory.h"
#include "python/convert.h"
#include "volume/blocking_volume.h"
#include "volume/verifier.h"

namespace ffrfs::python {
namespace {

// A push that the kernel does not let go of is not waited for any longer.
constexpr auto kPushLimit = std::chrono::milliseconds(5000);

// A part of the tree, which keeps its volume open.
struct PyTreePart {
  std::shared_ptr<Volume> volume;
  TreePtr part;
};

struct Finished {
  uint64_t token;
  std::variant<Slice, TreePtr> result;
  std::exception_ptr error;
};

// What has finished and nobody has collected yet. Callbacks of the core fill it, on
// whichever thread polls; no GIL there.
class FinishedQueue {
 public:
  void add(Finished finished) {
    const std::lock_guard lock(mutex_);
    finished_.push_back(std::move(finished));
  }

  [[nodiscard]] std::vector<Finished> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(finished_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Finished> finished_;
};

py::object to_attributes(const Attributes& attributes);

// What the volume is asked for, by callers that wait; Ctrl-C ends that.
class Waiting : public BlockingVolume {
 public:
  explicit Waiting(Volume& volume)
      : BlockingVolume(volume, [] {
          const py::gil_scoped_acquire locked;
          if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        }) {}
};

py::object attributes_in(const Volume& volume, const Tree& part, Ino ino) {
  const auto attributes = volume.attributes(part, ino);
  return attributes ? to_attributes(*attributes) : py::none();
}

py::list entries_in(const Volume& volume, const Tree& part, Ino ino, uint64_t start,
                    uint64_t limit) {
  py::list entries;
  for (const Dentry& entry : part.list(ino, start, limit)) {
    // The tree only lists what it has.
    entries.append(py::make_tuple(py::bytes(entry.name),
                                  to_attributes(*volume.attributes(part, entry.ino))));
  }
  return entries;
}

py::object record_in(const Volume& volume, const Tree& part, Ino ino) {
  const auto inode = part.inode(ino);
  if (!inode || inode->is_directory) return py::none();
  if (volume.kind() == TreeKind::kExamples) return py::make_tuple(inode->record, py::none());
  return py::make_tuple(inode->record, volume.extent(ino).crc32);
}

// Bytes that Python may look at for as long as this lives. Views made of the view do not
// end with it: who is given it must not keep any.
class LentView {
 public:
  explicit LentView(std::span<const std::byte> bytes)
      : view_(py::memoryview::from_memory(bytes.data(), static_cast<py::ssize_t>(bytes.size()))) {}
  LentView(const LentView&) = delete;
  LentView& operator=(const LentView&) = delete;
  ~LentView() {
    try {
      view_.attr("release")();
    } catch (py::error_already_set& error) {  // somebody holds its bytes
      error.discard_as_unraisable("the end of a push");
    }
  }

  [[nodiscard]] const py::memoryview& view() const { return view_; }

 private:
  const py::memoryview view_;
};

// A function in Python that pushes, for threads of the volume.
class PyPush {
 public:
  explicit PyPush(py::function push)
      : push_(new py::function(std::move(push)), [](py::function* last) {
          const py::gil_scoped_acquire locked;
          delete last;
        }) {}

  // What it raises is reported, and goes no further: nobody depends on a push.
  bool operator()(Ino ino, uint64_t offset, std::span<const std::byte> bytes) const {
    const py::gil_scoped_acquire locked;
    try {
      const LentView lent(bytes);
      return py::bool_((*push_)(ino, offset, lent.view()));
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable(*push_);
    } catch (const std::exception&) {  // no memory for the view
    }
    return false;
  }

 private:
  std::shared_ptr<py::function> push_;  // one, however often this is copied
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

  ~PyVolume() { close(); }
  PyVolume(const PyVolume&) = delete;
  PyVolume& operator=(const PyVolume&) = delete;

  void close() { end_prefetch(std::exchange(volume_, nullptr)); }

  // `self` is this.
  static void start_prefetch(const py::object& self, py::function push) {
    const auto volume = self.cast<PyVolume&>().open();
    // Also when the interpreter ends: a push could never come back from it.
    const py::cpp_function stop([left = std::weak_ptr(volume)] { end_prefetch(left.lock()); });
    py::module_::import("weakref").attr("finalize")(self, stop);
    PyPush pushing(std::move(push));
    const py::gil_scoped_release unlocked;
    volume->start_prefetch(std::move(pushing));
  }

  void stop_prefetch() const { end_prefetch(open()); }

  void take_hints(int fd) const {
    if (fd < 0) throw py::value_error(std::to_string(fd) + " is no file descriptor");
    FileDescriptor client(fd);
    const auto volume = open();
    const py::gil_scoped_release unlocked;
    volume->take_hints(std::move(client));
  }

  // For an engine: at once, or later through poll().

  [[nodiscard]] py::object tree_at(About about, Ino ino, uint64_t token) {
    const auto volume = open();
    TreePtr part = volume->tree_at(about, ino);
    if (!part) {
      const py::gil_scoped_release unlocked;
      part = volume->tree_at(about, ino,
                             [finished = finished_, token](TreePtr late, std::exception_ptr error) {
                               finished->add({token, std::move(late), error});
                             });
    }
    return part ? py::cast(PyTreePart{volume, std::move(part)}) : py::none();
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
    std::vector<Finished> all;
    {
      const py::gil_scoped_release unlocked;
      volume->poll();
      all = finished_->take();
    }
    py::list list;
    for (Finished& finished : all) {
      py::object result;
      if (finished.error) {
        result = to_python(finished.error);
      } else if (auto* slice = std::get_if<Slice>(&finished.result)) {
        result = py::cast(std::move(*slice));
      } else {
        result = py::cast(PyTreePart{volume, std::move(std::get<TreePtr>(finished.result))});
      }
      list.append(py::make_tuple(finished.token, std::move(result)));
    }
    return list;
  }

  // For callers that wait.

  [[nodiscard]] TreePtr wait_for_tree(Volume& volume, About about, Ino ino) const {
    TreePtr part = volume.tree_at(about, ino);
    if (part) return part;
    const py::gil_scoped_release unlocked;
    return Waiting(volume).tree_at(about, ino);
  }

  [[nodiscard]] Ino resolve(const std::string& path) const {
    const auto volume = open();
    const py::gil_scoped_release unlocked;
    return Waiting(*volume).resolve(path);
  }

  [[nodiscard]] py::object attributes(Ino ino) const {
    const auto volume = open();
    return attributes_in(*volume, *wait_for_tree(*volume, About::kInode, ino), ino);
  }

  [[nodiscard]] py::list list(Ino ino, uint64_t start, uint64_t limit) const {
    const auto volume = open();
    const TreePtr part = wait_for_tree(*volume, About::kEntries, ino);
    return entries_in(*volume, *part, ino, start, limit);
  }

  [[nodiscard]] py::object record(Ino ino) const {
    const auto volume = open();
    return record_in(*volume, *wait_for_tree(*volume, About::kInode, ino), ino);
  }

  [[nodiscard]] py::bytes path(Ino ino) const {
    const auto volume = open();
    return {volume->path(ino)};
  }

  [[nodiscard]] Slice read_wait(Ino ino, uint64_t offset, size_t size) {
    const auto volume = open();
    const py::gil_scoped_release unlocked;
    return Waiting(*volume).read(ino, offset, size);
  }

  [[nodiscard]] py::list read_files(const py::sequence& inos) {
    const auto volume = open();
    if (volume->kind() == TreeKind::kExamples) return read_parts(*volume, inos);
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

  [[nodiscard]] bool failure_is_due(Ino ino) const { return open()->failure_is_due(ino); }

 private:
  // Lets go of the volume, too. Without the GIL, for which a push may be waiting.
  static void end_prefetch(std::shared_ptr<Volume> volume) {
    const py::gil_scoped_release unlocked;
    if (volume && !volume->stop_prefetch(kPushLimit)) {
      // Never to end: it would wait for the push.
      [[maybe_unused]] const auto* const kept = new std::shared_ptr<Volume>(volume);
    }
    volume.reset();
  }

  // Of files that are not whole records.
  [[nodiscard]] py::list read_parts(Volume& volume, const py::sequence& inos) const {
    py::list arrays;
    std::vector<std::pair<Ino, std::span<std::byte>>> files;
    for (const py::handle object : inos) {
      const Ino ino = to_index(object);
      const TreePtr part = wait_for_tree(volume, About::kInode, ino);
      const auto attributes = volume.attributes(*part, ino);
      if (!attributes || S_ISDIR(attributes->mode)) {
        throw RangeError("inode " + std::to_string(ino) + " is no file");
      }
      const ArrayMemoryScope warm;
      py::array_t<uint8_t> array(static_cast<py::ssize_t>(attributes->size));
      files.emplace_back(ino, std::span(reinterpret_cast<std::byte*>(array.mutable_data()),
                                        static_cast<size_t>(attributes->size)));
      arrays.append(std::move(array));
    }
    {
      const py::gil_scoped_release unlocked;
      Waiting(volume).read_files(files);
    }
    return arrays;
  }

  const VolumeOptions options_;
  std::shared_ptr<Volume> volume_;
  std::shared_ptr<FinishedQueue> finished_ = std::make_shared<FinishedQueue>();
};

// collections.namedtuple, made once: attributes are read by name in Python.
py::object& attributes_type() {
  static auto* type = new py::object();  // never destroyed: the interpreter may be gone
  return *type;
}

py::object to_attributes(const Attributes& attributes) {
  return attributes_type()(attributes.ino, attributes.mode, attributes.nlink, attributes.uid,
                           attributes.gid, attributes.size, attributes.mtime_ns);
}

void bind_tree_part(py::module_& module) {
  py::class_<PyTreePart>(module, "TreePart")
      .def("lookup",
           [](const PyTreePart& self, Ino parent, const std::string& name) {
             return self.part->lookup(parent, name);
           },
           py::arg("parent"), py::arg("name"))
      .def("attributes",
           [](const PyTreePart& self, Ino ino) {
             return attributes_in(*self.volume, *self.part, ino);
           },
           py::arg("ino"))
      .def("parent",
           [](const PyTreePart& self, Ino ino) {
             const auto inode = self.part->inode(ino);
             return inode ? inode->parent : Ino{0};
           },
           py::arg("ino"))
      .def("list",
           [](const PyTreePart& self, Ino ino, uint64_t start, uint64_t limit) {
             return entries_in(*self.volume, *self.part, ino, start, limit);
           },
           py::arg("ino"), py::arg("start"), py::arg("limit"))
      .def("record",
           [](const PyTreePart& self, Ino ino) {
             return record_in(*self.volume, *self.part, ino);
           },
           py::arg("ino"));
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

}  // namespace

void bind_volume(py::module_& module) {
  bind_slice(module);
  bind_tree_part(module);
  attributes_type() = py::module_::import("collections")
                          .attr("namedtuple")("Attributes", "ino mode nlink uid gid size mtime_ns",
                                              py::arg("module") = "ffrfs._native");
  module.attr("Attributes") = attributes_type();

  const auto make = [](const std::string& path, uint32_t uid, uint32_t gid, uint32_t umask,
                       size_t cache_bytes, bool check_data, bool extensions,
                       size_t prefetch_records, uint64_t prefetch_bytes,
                       std::chrono::milliseconds::rep prefetch_ttl_ms) {
    return std::make_unique<PyVolume>(
        path, VolumeOptions{.uid = uid,
                            .gid = gid,
                            .umask = umask,
                            .cache_bytes = cache_bytes,
                            .check_data = check_data,
                            .extensions = extensions,
                            .prefetch = {prefetch_records, prefetch_bytes,
                                         std::chrono::milliseconds(prefetch_ttl_ms)}});
  };
  // A property that asks the open volume.
  const auto get = [](auto method) {
    return [method](const PyVolume& self) { return method(*self.open()); };
  };
  py::class_<PyVolume>(module, "Volume")
      .def(py::init(make), py::arg("path"), py::kw_only(), py::arg("uid"), py::arg("gid"),
           py::arg("umask") = 0, py::arg("cache_bytes") = VolumeOptions{}.cache_bytes,
           py::arg("check_data") = true, py::arg("extensions") = true,
           py::arg("prefetch_records") = PrefetchOptions{}.window_records,
           py::arg("prefetch_bytes") = PrefetchOptions{}.window_bytes,
           py::arg("prefetch_ttl_ms") = PrefetchOptions{}.ttl.count())
      .def_property_readonly("is_folder",
                             get([](Volume& v) { return v.kind() == TreeKind::kFolder; }))
      .def_property_readonly("is_examples",
                             get([](Volume& v) { return v.kind() == TreeKind::kExamples; }))
      .def_property_readonly("file_count", get([](Volume& v) { return v.tree().file_count(); }))
      .def_property_readonly("directory_count",
                             get([](Volume& v) { return v.tree().directory_count(); }))
      .def_property_readonly("record_count", get([](Volume& v) { return v.shards().count(); }))
      .def_property_readonly("byte_count", get([](Volume& v) { return v.byte_count(); }))
      .def_property_readonly("metadata_verified", get([](Volume& v) {
                               return v.metadata_verified();
                             }))
      .def_property_readonly("eventfd", get([](Volume& v) { return v.event_fd(); }))
      .def("tree_about",
           [](PyVolume& self, Ino ino, uint64_t token) {
             return self.tree_at(About::kInode, ino, token);
           },
           py::arg("ino"), py::arg("token"))
      .def("tree_in",
           [](PyVolume& self, Ino ino, uint64_t token) {
             return self.tree_at(About::kEntries, ino, token);
           },
           py::arg("ino"), py::arg("token"))
      .def("read", &PyVolume::read, py::arg("ino"), py::arg("offset"), py::arg("size"),
           py::arg("token"))
      .def("poll", &PyVolume::poll)
      .def("start_prefetch", &PyVolume::start_prefetch, py::arg("push"))
      .def("stop_prefetch", &PyVolume::stop_prefetch)
      .def("take_hints", &PyVolume::take_hints, py::arg("fd"))
      .def("resolve", &PyVolume::resolve, py::arg("path"))
      .def("attributes", &PyVolume::attributes, py::arg("ino"))
      .def("list", &PyVolume::list, py::arg("ino"), py::arg("start"), py::arg("limit"))
      .def("record", &PyVolume::record, py::arg("ino"))
      .def("path", &PyVolume::path, py::arg("ino"))
      .def("file_of",
           [](const PyVolume& self, uint64_t record) {
             return self.open()->tree().file_of(record);
           },
           py::arg("record"))
      .def("read_wait", &PyVolume::read_wait, py::arg("ino"), py::arg("offset"), py::arg("size"))
      .def("read_files", &PyVolume::read_files, py::arg("inos"))
      .def("verify", &PyVolume::verify, py::arg("first"), py::arg("count"))
      .def("counter_page", &PyVolume::counter_page)
      .def("count_request",
           [](const PyVolume& self, const std::string& kind, uint64_t elapsed_ns) {
             self.open()->request_times().add(RequestTimes::kind_of(kind), elapsed_ns);
           },
           py::arg("kind"), py::arg("elapsed_ns"))
      .def("failure_is_due", &PyVolume::failure_is_due, py::arg("ino"))
      .def("close", &PyVolume::close);
}

}  // namespace ffrfs::python
