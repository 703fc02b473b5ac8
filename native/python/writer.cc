// Writer: one FFRecord file being written, for FileWriter and pack_folder.

#include "record/writer.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <tuple>

#include "entries/entry_files.h"
#include "entries/entry_slice.h"
#include "pickle/index_record.h"
#include "python/convert.h"
#include "python/entry_list.h"

namespace ffrfs::python {
namespace {

std::unique_ptr<Writer> make_writer(const std::string& path, uint64_t count) {
  const Unlocked unlocked;
  return std::make_unique<Writer>(path, count);
}

void append(Writer& writer, const py::object& data) {
  const BytesView view(data);
  const Unlocked unlocked;
  writer.append(view.bytes());
}

uint64_t append_pieces(Writer& writer, const py::iterable& pieces) {
  uint64_t size = 0;
  const Unlocked unlocked;
  writer.append_pieces([&](const Writer::Sink& sink) {
    const py::gil_scoped_acquire locked;
    for (const py::handle piece : pieces) {
      const BytesView view(piece);
      const Unlocked writing;
      sink(view.bytes());
      size += view.bytes().size();
    }
  });
  return size;
}

// Called without the GIL, about ten times a second, to show progress and to notice Ctrl-C. An
// exception stops the threads of the writer.
FilePacker::Tick tick_of(const py::object& progress) {
  return [&progress](uint64_t done_files, uint64_t done_bytes) {
    const py::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!progress.is_none()) progress(done_files, done_bytes);
  };
}

void append_folder(Writer& writer, const SharedFolderList& folder, const std::string& root,
                   uint32_t first, uint32_t count, size_t jobs, const py::object& progress,
                   const std::string& symlinks) {
  const Unlocked unlocked;
  folder.read_numbered([&](const EntryList& list) {
    check_run(list, first, count);
    const LinkRule rule = symlinks == "follow"   ? LinkRule::kFollow
                          : symlinks == "inside" ? LinkRule::kInside
                                                 : LinkRule::kNone;
    writer.append_files(EntryFiles(list, root, rule, first, count), jobs, tick_of(progress));
  });
}

using ShardTuple = std::tuple<std::string, uint32_t, uint32_t>;

std::optional<IndexSet> to_set(const std::optional<ShardTuple>& shard) {
  if (!shard) return std::nullopt;
  const auto& [id, number, count] = *shard;
  IndexSet set{.id = {}, .number = number, .count = count, .zero = 0};
  if (id.size() != set.id.size()) throw std::invalid_argument("a set's name has 16 bytes");
  if (number >= count) throw std::invalid_argument("a shard's number is below their count");
  std::memcpy(set.id.data(), id.data(), id.size());
  return set;
}

void append_index(Writer& writer, const SharedFolderList& folder, uint32_t first,
                  std::optional<uint32_t> count, const std::optional<ShardTuple>& shard) {
  const std::optional<IndexSet> set = to_set(shard);
  const Unlocked unlocked;
  folder.read_numbered([&](const EntryList& list) {
    const uint32_t shown =
        count.value_or(list.record_count() - std::min(first, list.record_count()));
    check_run(list, first, shown);
    if (writer.written() != shown) {
      throw RecordCountError("the index tells of " + std::to_string(shown) + " records, " +
                             std::to_string(writer.written()) + " were written");
    }
    append_index_record(writer, EntrySlice(list, first, shown), set);
  });
}

}  // namespace

void bind_writer(py::module_& module) {
  const py::call_guard<Unlocked> unlocked;
  py::class_<Writer>(module, "Writer")
      .def(py::init(&make_writer), py::arg("path"), py::arg("count"))
      .def_property_readonly("count", &Writer::count)
      .def_property_readonly("written", &Writer::written)
      .def("append", &append, py::arg("data"))
      .def("append_pieces", &append_pieces, py::arg("pieces"))
      .def("append_folder", &append_folder, py::arg("folder"), py::arg("root"), py::arg("first"),
           py::arg("count"), py::arg("jobs"), py::arg("progress") = py::none(),
           py::arg("symlinks") = "follow")
      .def("append_index", &append_index, py::arg("folder"), py::arg("first") = 0,
           py::arg("count") = py::none(), py::kw_only(), py::arg("shard") = py::none())
      .def("finish", &Writer::finish, py::kw_only(), py::arg("replace") = true, unlocked)
      .def("abort", &Writer::abort, unlocked);
}

}  // namespace ffrfs::python
