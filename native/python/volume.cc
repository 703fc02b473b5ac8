#include "python/volume.h"

#include <pybind11/stl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>

#include "io/error.h"
#include "io/file_descriptor.h"
#include "python/array_memory.h"
#include "python/convert.h"
#include "python/pack.h"
#include "python/py_push.h"
#include "python/tree_part.h"
#include "remote/remote_error.h"
#include "scrub/scrub.h"
#include "volume/blocking_volume.h"
#include "volume/made_file.h"
#include "volume/volume.h"

namespace ffrfs::python {
namespace {

// How long to wait for a push that the kernel does not finish.
constexpr auto kPushLimit = std::chrono::milliseconds(5000);

// Blocking calls of the volume, which Ctrl-C interrupts.
class Waiting : public BlockingVolume {
 public:
  explicit Waiting(Volume& volume)
      : BlockingVolume(volume, [] {
          const py::gil_scoped_acquire locked;
          if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        }) {}
};

TreePtr wait_for_tree(Volume& volume, Need need, Ino ino) {
  return unlocked([&] {
    TreePtr part = volume.find_tree(need, ino);
    return part ? part : Waiting(volume).load_tree(need, ino);
  });
}

}  // namespace

PyVolume::PyVolume(const std::vector<std::string>& paths, const VolumeOptions& options)
    : name_(paths.empty() ? "" : paths.front()), options_(options) {
  const Unlocked unlocked;
  volume_ = std::make_shared<Volume>(paths, options);
}

std::shared_ptr<Volume> PyVolume::open() const {
  if (volume_) return volume_;
  throw py::value_error(remote::shown_url(name_) +
                        ": was closed, by close() or at the end of a with block; open it again");
}

void PyVolume::start_prefetch(const py::object& self, py::function push) {
  const auto volume = self.cast<PyVolume&>().open();
  // Also runs at the end of the interpreter, because a push could never return from it.
  const py::cpp_function stop([left = std::weak_ptr(volume)] { end_prefetch(left.lock()); });
  py::module_::import("weakref").attr("finalize")(self, stop);
  PyPush pushing(std::move(push));
  const Unlocked unlocked;
  volume->start_prefetch(std::move(pushing));
}

// Also drops the volume. Releases the GIL, because a push may be waiting for it.
void PyVolume::end_prefetch(std::shared_ptr<Volume> volume) {
  const Unlocked unlocked;
  if (volume && !volume->stop_prefetch(kPushLimit)) {
    // Never destroyed, because the destructor would wait for the push.
    [[maybe_unused]] const auto* const kept = new std::shared_ptr<Volume>(volume);
  }
  volume.reset();
}

void PyVolume::take_hints(int fd) const {
  if (fd < 0) throw py::value_error(std::to_string(fd) + " is not a file descriptor");
  FileDescriptor client(fd);
  const auto volume = open();
  unlocked([&] { volume->take_hints(std::move(client)); });
}

py::object PyVolume::load_tree(Need need, Ino ino, uint64_t token) {
  const auto volume = open();
  TreePtr part = volume->find_tree(need, ino);
  if (!part) {
    const Unlocked unlocked;
    part = volume->load_tree(need, ino,
                             [finished = finished_, token](TreePtr late, std::exception_ptr error) {
      finished->add({token, std::move(late), error});
    });
  }
  return part ? py::cast(PyTreePart{volume, std::move(part)}) : py::none();
}

py::object PyVolume::read(Ino ino, uint64_t offset, size_t size, uint64_t token) {
  const auto volume = open();
  std::optional<Slice> slice;
  {
    const Unlocked unlocked;
    slice = volume->read(ino, offset, size,
                         [finished = finished_, token](Slice late, std::exception_ptr error) {
      finished->add({token, std::move(late), error});
    });
  }
  return slice ? py::cast(std::move(*slice)) : py::none();
}

py::list PyVolume::poll() {
  const auto volume = open();
  std::vector<FinishedQueue::Finished> all;
  {
    const Unlocked unlocked;
    volume->poll();
    all = finished_->take();
  }
  py::list list;
  for (FinishedQueue::Finished& finished : all) {
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

py::list PyVolume::read_files(const py::sequence& inos) {
  const auto volume = open();
  if (volume->has_subtrees()) return read_parts(*volume, inos);
  const auto extents = extents_of(inos, [&](Ino ino) { return volume->extent(ino); });
  return read_arrays(volume->fetcher(), extents, options_.check_data);
}

// For files that are not whole records.
py::list PyVolume::read_parts(Volume& volume, const py::sequence& inos) const {
  py::list arrays;
  std::vector<std::pair<Ino, std::span<std::byte>>> files;
  for (const py::object object : inos) {
    const Ino ino = to_index(object);
    const TreePtr part = wait_for_tree(volume, Need::kInode, ino);
    const auto attributes = unlocked([&] { return volume.attributes(*part, ino); });
    if (!attributes || S_ISDIR(attributes->mode)) {
      throw RangeError("inode " + std::to_string(ino) + " is no file");
    }
    const ArrayMemoryScope warm;
    py::array_t<uint8_t> array(static_cast<py::ssize_t>(attributes->size));
    files.emplace_back(ino, std::span(reinterpret_cast<std::byte*>(array.mutable_data()),
                                      static_cast<size_t>(attributes->size)));
    arrays.append(std::move(array));
  }
  unlocked([&] { Waiting(volume).read_files(files); });
  return arrays;
}

std::unique_ptr<const MadeFile> PyVolume::made_file(Ino ino) const {
  const auto volume = open();
  const Unlocked unlocked;
  const TreePtr tree = Waiting(*volume).load_tree(Need::kInode, ino);
  return MadeFile::open(*volume, tree, ino, options_.check_data);
}

namespace {

void limit_cache(const PyVolume& self, size_t limit_bytes) {
  const auto volume = self.open();
  unlocked([&] { volume->limit_cache(limit_bytes); });
}

Ino resolve(const PyVolume& self, const std::string& path) {
  const auto volume = self.open();
  return unlocked([&] { return Waiting(*volume).resolve(path); });
}

// Returns of(volume, part, ino), where `part` is the part of the tree that has the inode.
template <auto Of> auto of_inode(const PyVolume& self, Ino ino) {
  const auto volume = self.open();
  return Of(*volume, *wait_for_tree(*volume, Need::kInode, ino), ino);
}

py::list entries_of(const PyVolume& self, Ino ino, uint64_t start, uint64_t limit) {
  const auto volume = self.open();
  const TreePtr part = wait_for_tree(*volume, Need::kEntries, ino);
  return entries_in(*volume, *part, ino, start, limit);
}

py::bytes target_of(const PyVolume& self, Ino ino) {
  const auto volume = self.open();
  return target_in(*wait_for_tree(*volume, Need::kInode, ino), ino);
}

py::bytes path_of(const PyVolume& self, Ino ino) {
  const auto volume = self.open();
  return {unlocked([&] { return volume->path(ino); })};
}

// Returns the packed permissions and time; None if they are unknown.
py::object stored_in(const Volume&, const Tree& part, Ino ino) {
  const auto inode = unlocked([&] { return part.inode(ino); });
  if (!inode || !inode->mode || !inode->mtime_ns) return py::none();
  return py::make_tuple(*inode->mode, *inode->mtime_ns);
}

Slice read_wait(const PyVolume& self, Ino ino, uint64_t offset, size_t size) {
  const auto volume = self.open();
  const Unlocked unlocked;
  return Waiting(*volume).read(ino, offset, size);
}

// Returns 0 if there is none; see Tree.
Ino find_too_deep(const PyVolume& self, Ino ino) {
  const auto volume = self.open();
  return unlocked([&] { return volume->tree().find_too_deep(ino); });
}

py::list verify(const PyVolume& self, uint64_t first, uint64_t count) {
  const auto volume = self.open();
  return to_list(unlocked([&] { return scrub_records(volume->fetcher(), first, count); }));
}

py::bytes counter_page(const PyVolume& self) {
  const auto volume = self.open();
  const auto page = volume->counters().page().bytes();
  return {reinterpret_cast<const char*>(page.data()), page.size()};
}

py::bytes describe_slow(const PyVolume& self, const std::string& kind, Ino ino,
                        uint64_t elapsed_ns) {
  const auto volume = self.open();
  return {unlocked(
      [&] { return volume->describe_slow(RequestTimes::kind_of(kind), ino, elapsed_ns); })};
}

using VolumeClass = py::class_<PyVolume>;

py::bytes read_made(const MadeFile& file, uint64_t offset, uint64_t size) {
  const uint64_t left = offset < file.size() ? file.size() - offset : 0;
  const auto count = static_cast<py::ssize_t>(std::min(size, left));
  // No other code has the object yet, so it may be written to.
  const auto bytes = py::reinterpret_steal<py::bytes>(PyBytes_FromStringAndSize(nullptr, count));
  if (!bytes) throw py::error_already_set();
  auto* const memory = reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr()));
  if (count > 0) {
    const Unlocked unlocked;
    file.read(offset, {memory, static_cast<size_t>(count)});
  }
  return bytes;
}

void bind_slice(py::module_& module) {
  py::class_<Slice>(module, "Slice", py::buffer_protocol())
      .def("__len__", [](const Slice& slice) {
    return slice.bytes.size();
  }).def_buffer([](Slice& slice) {
    // An empty slice has no memory, and a buffer must have some address.
    static std::byte nothing{};
    auto* memory = slice.bytes.empty() ? &nothing : const_cast<std::byte*>(slice.bytes.data());
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
  volume.def(py::init(make), py::arg("paths")).def("close", &PyVolume::close);
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
      .def_property_readonly("inode_count", get([](Volume& v) { return v.tree().inode_count(); }))
      .def_property_readonly("record_count", get([](Volume& v) { return v.shards().count(); }))
      .def_property_readonly("byte_count", get([](Volume& v) { return v.byte_count(); }))
      .def_property_readonly("paths", get([](Volume& v) {
    std::vector<std::string> paths;
    for (size_t i = 0; i < v.shards().shard_count(); ++i) {
      paths.push_back(v.shards().shard(i).file().path());
    }
    return to_bytes_list(paths);
  }))
      .def_property_readonly("packs",
                             [](const PyVolume& self) {
    const auto opened = self.open();
    py::list packs;
    for (size_t i = 0; i < opened->shards().shard_count(); ++i) {
      packs.append(std::make_unique<PyPack>(opened, i));
    }
    return packs;
  })
      .def_property_readonly("warnings", get([](Volume& v) {
    py::list lines;
    for (const std::string& line : v.warnings()) lines.append(fs_text(line));
    return lines;
  }))
      .def_property_readonly("unverified_paths", get([](Volume& v) {
    return to_bytes_list(v.shards().unverified_paths());
  })).def_property_readonly("eventfd", get([](Volume& v) { return v.event_fd(); }));
}

// Functions that only an engine needs.
void bind_serving(VolumeClass& volume) {
  volume
      .def("load_tree",
           [](PyVolume& self, Ino ino, uint64_t token) {
    return self.load_tree(Need::kInode, ino, token);
  }, py::arg("ino"), py::arg("token"))
      .def("load_directory",
           [](PyVolume& self, Ino ino, uint64_t token) {
    return self.load_tree(Need::kEntries, ino, token);
  }, py::arg("ino"), py::arg("token"))
      .def("read", &PyVolume::read, py::arg("ino"), py::arg("offset"), py::arg("size"),
           py::arg("token"))
      .def("poll", &PyVolume::poll)
      .def("start_prefetch", &PyVolume::start_prefetch, py::arg("push"))
      .def("stop_prefetch", &PyVolume::stop_prefetch)
      .def("take_hints", &PyVolume::take_hints, py::arg("fd"))
      .def("limit_cache", &limit_cache, py::arg("limit_bytes"))
      .def("warm", &PyVolume::warm, py::arg("ino"))
      .def("limit_pushed", &PyVolume::limit_pushed, py::arg("limit_bytes"))
      .def("count_request",
           [](const PyVolume& self, const std::string& kind, uint64_t elapsed_ns) {
    return self.open()->note_request(RequestTimes::kind_of(kind), elapsed_ns);
  }, py::arg("kind"), py::arg("elapsed_ns"))
      .def("describe_slow", &describe_slow, py::arg("kind"), py::arg("ino"), py::arg("elapsed_ns"))
      .def("note_failure", &PyVolume::note_failure, py::arg("ino"));
}

// Functions that may block.
void bind_reading(VolumeClass& volume) {
  volume.def("resolve", &resolve, py::arg("path"))
      .def("attributes", &of_inode<attributes_in>, py::arg("ino"))
      .def("list", &entries_of, py::arg("ino"), py::arg("start"), py::arg("limit"))
      .def("stored", &of_inode<stored_in>, py::arg("ino"))
      .def("target", &target_of, py::arg("ino"))
      .def("record", &of_inode<record_in>, py::arg("ino"))
      .def("path", &path_of, py::arg("ino"))
      .def("file_of",
           [](const PyVolume& self, uint64_t record) {
    const auto opened = self.open();
    return unlocked([&] { return opened->tree().file_of(record); });
  }, py::arg("record"))
      .def("read_wait", &read_wait, py::arg("ino"), py::arg("offset"), py::arg("size"))
      .def("read_files", &PyVolume::read_files, py::arg("inos"))
      .def("made_file", &PyVolume::made_file, py::arg("ino"))
      .def("find_too_deep", &find_too_deep, py::arg("ino"))
      .def("verify", &verify, py::arg("first"), py::arg("count"))
      .def("counter_page", &counter_page);
}

}  // namespace

void bind_volume(py::module_& module) {
  bind_slice(module);
  // Rendered files of a TFRecord's records, for code that copies them elsewhere.
  py::class_<MadeFile>(module, "MadeFile")
      .def_property_readonly("size", &MadeFile::size)
      .def("read", &read_made, py::arg("offset"), py::arg("size"));
  bind_tree_part(module);
  VolumeClass volume(module, "Volume");
  bind_opening(volume);
  bind_properties(volume);
  bind_serving(volume);
  bind_reading(volume);
}

}  // namespace ffrfs::python
