#include "python/py_volume.h"

#include <sys/stat.h>

#include <chrono>
#include <optional>
#include <span>

#include "scrub/scrub.h"
#include "io/error.h"
#include "io/file_descriptor.h"
#include "python/array_memory.h"
#include "python/convert.h"
#include "python/py_push.h"
#include "python/tree_part.h"
#include "volume/blocking_volume.h"

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
  TreePtr part = volume.find_tree(need, ino);
  if (part) return part;
  const py::gil_scoped_release unlocked;
  return Waiting(volume).load_tree(need, ino);
}

}  // namespace

PyVolume::PyVolume(const std::vector<std::string>& paths, const VolumeOptions& options)
    : name_(paths.empty() ? "" : paths.front()), options_(options) {
  const py::gil_scoped_release unlocked;
  volume_ = std::make_shared<Volume>(paths, options);
}

std::shared_ptr<Volume> PyVolume::open() const {
  if (volume_) return volume_;
  throw py::value_error(name_ +
                        ": was closed, by close() or at the end of a with block; open it again");
}

void PyVolume::start_prefetch(const py::object& self, py::function push) {
  const auto volume = self.cast<PyVolume&>().open();
  // Also runs at the end of the interpreter, because a push could never return from it.
  const py::cpp_function stop([left = std::weak_ptr(volume)] { end_prefetch(left.lock()); });
  py::module_::import("weakref").attr("finalize")(self, stop);
  PyPush pushing(std::move(push));
  const py::gil_scoped_release unlocked;
  volume->start_prefetch(std::move(pushing));
}

// Also drops the volume. Releases the GIL, because a push may be waiting for it.
void PyVolume::end_prefetch(std::shared_ptr<Volume> volume) {
  const py::gil_scoped_release unlocked;
  if (volume && !volume->stop_prefetch(kPushLimit)) {
    // Never destroyed, because the destructor would wait for the push.
    [[maybe_unused]] const auto* const kept = new std::shared_ptr<Volume>(volume);
  }
  volume.reset();
}

void PyVolume::take_hints(int fd) const {
  if (fd < 0) throw py::value_error(std::to_string(fd) + " is no file descriptor");
  FileDescriptor client(fd);
  const auto volume = open();
  const py::gil_scoped_release unlocked;
  volume->take_hints(std::move(client));
}

void PyVolume::limit_cache(size_t limit_bytes) const {
  const auto volume = open();
  unlocked([&] { volume->limit_cache(limit_bytes); });
}

void PyVolume::warm(Ino ino) const { open()->warm(ino); }

void PyVolume::limit_pushed(uint64_t limit_bytes) const { open()->limit_pushed(limit_bytes); }

py::object PyVolume::load_tree(Need need, Ino ino, uint64_t token) {
  const auto volume = open();
  TreePtr part = volume->find_tree(need, ino);
  if (!part) {
    const py::gil_scoped_release unlocked;
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
    const py::gil_scoped_release unlocked;
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
    const py::gil_scoped_release unlocked;
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

py::bytes PyVolume::describe_slow(const std::string& kind, Ino ino, uint64_t elapsed_ns) const {
  const auto volume = open();
  const auto line = [&] {
    const py::gil_scoped_release unlocked;
    return volume->describe_slow(RequestTimes::kind_of(kind), ino, elapsed_ns);
  }();
  return {line};
}

Ino PyVolume::resolve(const std::string& path) const {
  const auto volume = open();
  const py::gil_scoped_release unlocked;
  return Waiting(*volume).resolve(path);
}

py::object PyVolume::attributes(Ino ino) const {
  const auto volume = open();
  return attributes_in(*volume, *wait_for_tree(*volume, Need::kInode, ino), ino);
}

py::list PyVolume::list(Ino ino, uint64_t start, uint64_t limit) const {
  const auto volume = open();
  const TreePtr part = wait_for_tree(*volume, Need::kEntries, ino);
  return entries_in(*volume, *part, ino, start, limit);
}

py::object PyVolume::record(Ino ino) const {
  const auto volume = open();
  return record_in(*volume, *wait_for_tree(*volume, Need::kInode, ino), ino);
}

py::bytes PyVolume::target(Ino ino) const {
  const auto volume = open();
  return {wait_for_tree(*volume, Need::kInode, ino)->target(ino)};
}

py::object PyVolume::stored(Ino ino) const {
  const auto volume = open();
  const auto inode = wait_for_tree(*volume, Need::kInode, ino)->inode(ino);
  if (!inode || !inode->mode || !inode->mtime_ns) return py::none();
  return py::make_tuple(*inode->mode, *inode->mtime_ns);
}

Slice PyVolume::read_wait(Ino ino, uint64_t offset, size_t size) {
  const auto volume = open();
  const py::gil_scoped_release unlocked;
  return Waiting(*volume).read(ino, offset, size);
}

py::list PyVolume::read_files(const py::sequence& inos) {
  const auto volume = open();
  if (volume->has_subtrees()) return read_parts(*volume, inos);
  std::vector<Extent> extents;
  for (const py::object ino : inos) extents.push_back(volume->extent(to_index(ino)));
  return read_arrays(volume->fetcher(), extents, options_.check_data);
}

// For files that are not whole records.
py::list PyVolume::read_parts(Volume& volume, const py::sequence& inos) const {
  py::list arrays;
  std::vector<std::pair<Ino, std::span<std::byte>>> files;
  for (const py::object object : inos) {
    const Ino ino = to_index(object);
    const TreePtr part = wait_for_tree(volume, Need::kInode, ino);
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
  unlocked([&] { Waiting(volume).read_files(files); });
  return arrays;
}

std::unique_ptr<const MadeFile> PyVolume::made_file(Ino ino) const {
  const auto volume = open();
  const py::gil_scoped_release unlocked;
  const TreePtr tree = Waiting(*volume).load_tree(Need::kInode, ino);
  return MadeFile::open(*volume, tree, ino, options_.check_data);
}

Ino PyVolume::find_too_deep(Ino ino) const {
  const auto volume = open();
  const py::gil_scoped_release unlocked;
  return volume->tree().find_too_deep(ino);
}

py::list PyVolume::verify(uint64_t first, uint64_t count) {
  const auto volume = open();
  const auto bad = unlocked([&] { return scrub_records(volume->fetcher(), first, count); });
  return to_list(bad);
}

py::bytes PyVolume::counter_page() const {
  const auto volume = open();
  const auto page = volume->counters().page().bytes();
  return {reinterpret_cast<const char*>(page.data()), page.size()};
}

}  // namespace ffrfs::python
