// Volume and its Slice: a mounted tree, for PackedFolder, the commands and the pyfuse3
// engine. Its TreePart is in tree_part.h.

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
#include "python/page_push.h"
#include "python/tree_part.h"
#include "volume/blocking_volume.h"
#include "volume/verifier.h"

namespace ffrfs::python {
namespace {

// A push that the kernel does not let go of is not waited for any longer.
constexpr auto kPushLimit = std::chrono::milliseconds(5000);

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

// What the volume is asked for, by callers that wait; Ctrl-C ends that.
class Waiting : public BlockingVolume {
 public:
  explicit Waiting(Volume& volume)
      : BlockingVolume(volume, [] {
          const py::gil_scoped_acquire locked;
          if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        }) {}
};

class PyVolume {
 public:
  PyVolume(const std::vector<std::string>& paths, const VolumeOptions& options)
      : options_(options) {
    const py::gil_scoped_release unlocked;
    volume_ = std::make_shared<Volume>(paths, options);
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

  void limit_cache(size_t limit_bytes) const {
    const auto volume = open();
    const py::gil_scoped_release unlocked;
    volume->limit_cache(limit_bytes);
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

  [[nodiscard]] py::bytes target(Ino ino) const {
    const auto volume = open();
    return {wait_for_tree(*volume, About::kInode, ino)->target(ino)};
  }

  // The permissions and the time that were packed; None: they are not known.
  [[nodiscard]] py::object stored(Ino ino) const {
    const auto volume = open();
    const auto inode = wait_for_tree(*volume, About::kInode, ino)->inode(ino);
    if (!inode || !inode->mode || !inode->mtime_ns) return py::none();
    return py::make_tuple(*inode->mode, *inode->mtime_ns);
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

OnConflict to_on_conflict(const std::string& name) {
  if (name == "error") return OnConflict::kError;
  if (name == "first") return OnConflict::kFirst;
  if (name == "last") return OnConflict::kLast;
  throw py::value_error("on_conflict must be 'error', 'first' or 'last', not '" + name + "'");
}

py::list to_bytes_list(const std::vector<std::string>& texts) {
  py::list list;
  for (const std::string& text : texts) list.append(py::bytes(text));
  return list;
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
  const auto make = [](const std::vector<py::bytes>& paths, uint32_t uid, uint32_t gid,
                       uint32_t umask, size_t cache_bytes, bool check_data, bool extensions,
                       const std::string& on_conflict, bool allow_missing,
                       size_t prefetch_records, uint64_t prefetch_bytes,
                       std::chrono::milliseconds::rep prefetch_ttl_ms) {
    return std::make_unique<PyVolume>(
        std::vector<std::string>(paths.begin(), paths.end()),
        VolumeOptions{.uid = uid,
                      .gid = gid,
                      .umask = umask,
                      .cache_bytes = cache_bytes,
                      .check_data = check_data,
                      .extensions = extensions,
                      .packs = {to_on_conflict(on_conflict), allow_missing},
                      .prefetch = {prefetch_records, prefetch_bytes,
                                   std::chrono::milliseconds(prefetch_ttl_ms)}});
  };
  // A property that asks the open volume.
  const auto get = [](auto method) {
    return [method](const PyVolume& self) { return method(*self.open()); };
  };
  py::class_<PyVolume>(module, "Volume")
      .def(py::init(make), py::arg("paths"), py::kw_only(), py::arg("uid"), py::arg("gid"),
           py::arg("umask") = 0, py::arg("cache_bytes") = VolumeOptions{}.cache_bytes,
           py::arg("check_data") = true, py::arg("extensions") = true,
           py::arg("on_conflict") = "error", py::arg("allow_missing") = false,
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
      .def_property_readonly("paths", get([](Volume& v) {
                               std::vector<std::string> paths;
                               for (size_t i = 0; i < v.shards().shard_count(); ++i) {
                                 paths.push_back(v.shards().shard(i).file().path());
                               }
                               return to_bytes_list(paths);
                             }))
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
      .def("limit_cache", &PyVolume::limit_cache, py::arg("limit_bytes"))
      .def("resolve", &PyVolume::resolve, py::arg("path"))
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
      .def("verify", &PyVolume::verify, py::arg("first"), py::arg("count"))
      .def("counter_page", &PyVolume::counter_page)
      .def("count_request",
           [](const PyVolume& self, const std::string& kind, Ino ino, uint64_t elapsed_ns) {
             self.open()->note_request(RequestTimes::kind_of(kind), ino, elapsed_ns);
           },
           py::arg("kind"), py::arg("ino"), py::arg("elapsed_ns"))
      .def("failure_is_due", &PyVolume::failure_is_due, py::arg("ino"))
      .def("close", &PyVolume::close);
}

}  // namespace ffrfs::python
