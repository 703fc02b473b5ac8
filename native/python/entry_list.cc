// EntryList: the compact list of what pack_folder has found, for Writer.

#include "python/entry_list.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "entries/entry_listing.h"
#include "entries/folder_walk.h"
#include "entries/record_costs.h"
#include "python/convert.h"

namespace ffrfs::python {
namespace {

using List = SharedFolderList;

std::string_view bytes_of(py::handle object) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(object.ptr(), &data, &size) != 0) throw py::error_already_set();
  return {data, static_cast<size_t>(size)};
}

// Raises OverflowError if the number does not fit a C integer.
template <typename T> T integer_of(py::handle object) {
  const long long value = PyLong_AsLongLong(object.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (value < 0 && std::is_unsigned_v<T>) throw std::invalid_argument("a number below 0");
  return static_cast<T>(value);
}

uint32_t add_files(List& self, uint32_t parent, const py::iterable& files) {
  return self.change([&](EntryList& list) {
    const uint32_t first = list.file_count();
    for (const py::handle item : files) {
      const auto file = py::reinterpret_borrow<py::tuple>(item);
      if (!PyTuple_Check(item.ptr()) || file.size() != 4) {
        throw py::type_error("a file is (name, size, mode, mtime_ns)");
      }
      const auto field = [&file](Py_ssize_t i) { return PyTuple_GET_ITEM(file.ptr(), i); };
      list.add_file(parent, bytes_of(field(0)), integer_of<uint64_t>(field(1)),
                    static_cast<uint32_t>(integer_of<uint64_t>(field(2))),
                    integer_of<int64_t>(field(3)));
    }
    return first;
  });
}

py::list add_found(List& self, uint32_t parent, int folder, const std::string& path) {
  py::list others;
  const Unlocked unlocked;
  FolderWalk walk(folder, path);
  while (true) {
    const std::vector<FolderWalk::Entry>& found = walk.next();
    if (found.empty()) break;
    const auto left =
        self.change([&](EntryList& list) { return add_regular_files(list, parent, found); });
    const py::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    for (const std::string_view name : left) others.append(py::bytes(name.data(), name.size()));
  }
  return others;
}

template <auto Method, typename... Arguments> auto change(List& self, Arguments... arguments) {
  return self.change([&](EntryList& list) { return (list.*Method)(arguments...); });
}

template <auto Method> uint64_t number_of(const List& self) {
  return self.read([](const EntryList& list) { return (list.*Method)(); });
}

py::array_t<uint64_t> sizes(const List& self) {
  return self.read([](const EntryList& list) {
    py::array_t<uint64_t> sizes(static_cast<py::ssize_t>(list.file_count()));
    for (uint32_t file = 0; file < list.file_count(); ++file) {
      sizes.mutable_at(file) = list.file(file).value;
    }
    return sizes;
  });
}

py::list paths(const List& self, const std::vector<uint32_t>& files) {
  return self.read([&](const EntryList& list) {
    py::list paths;
    for (const uint32_t file : files) {
      if (file >= list.file_count()) {
        throw std::invalid_argument("there is no file " + std::to_string(file));
      }
      paths.append(py::bytes(list.path(list.file(file))));
    }
    return paths;
  });
}

std::optional<uint32_t> find(List& self, const py::bytes& path) {
  return self.change([&](EntryList& list) {
    list.sort();
    return list.find(bytes_of(path));
  });
}

void number(List& self, const std::string& order) {
  if (order != "path" && order != "size") {
    throw std::invalid_argument("there is no order \"" + order + "\"");
  }
  const Unlocked unlocked;
  self.change(
      [&](EntryList& list) { order == "path" ? list.number_by_path() : list.number_by_size(); });
}

void number_by(List& self, const std::vector<uint32_t>& files) {
  const Unlocked unlocked;
  self.change([&](EntryList& list) { list.number_by(files); });
}

std::vector<uint32_t> files(const List& self, uint32_t first, uint32_t count) {
  return self.read_numbered([&](const EntryList& list) {
    std::vector<uint32_t> files;
    const uint64_t end = std::min<uint64_t>(uint64_t{first} + count, list.record_count());
    for (uint64_t record = first; record < end; ++record) {
      files.push_back(list.file_of(static_cast<uint32_t>(record)));
    }
    return files;
  });
}

std::vector<uint64_t> costs(const List& self, uint32_t first, uint32_t count) {
  return self.read_numbered([&](const EntryList& list) {
    check_run(list, first, count);
    return record_costs(list, first, count);
  });
}

py::tuple listing(const List& self, uint32_t first, uint32_t count) {
  return self.read_numbered([&](const EntryList& list) {
    check_run(list, first, count);
    const EntryListing found(list, first, count);
    return py::make_tuple(py::bytes(found.names), py::bytes(found.sizes), py::bytes(found.times));
  });
}

py::list rows(const List& self, uint32_t first, uint32_t count) {
  return self.read_numbered([&](const EntryList& list) {
    check_run(list, first, count);
    py::list found;
    for (const EntryRow& row : entry_rows(list, first, count)) {
      found.append(py::make_tuple(row.record, row.folder, py::bytes(std::string(row.name)),
                                  row.size, row.mode, row.mtime_ns,
                                  py::bytes(std::string(row.target))));
    }
    return found;
  });
}

py::tuple folder(const List& self, uint32_t number) {
  return self.read([&](const EntryList& list) {
    const EntryList::Entry& entry = list.folder(number);
    return py::make_tuple(entry.parent, py::bytes(std::string(list.name(entry))),
                          static_cast<uint16_t>(entry.mode), int64_t{entry.mtime_ns});
  });
}

}  // namespace

void bind_entry_list(py::module_& module) {
  py::class_<List>(module, "EntryList")
      .def(py::init<>())
      .def("add_folder",
           &change<&EntryList::add_folder, uint32_t, std::string_view, uint32_t, int64_t>,
           py::arg("parent"), py::arg("name"), py::arg("mode"), py::arg("mtime_ns"))
      .def("drop_folder", &change<&EntryList::drop_folder, uint32_t>, py::arg("folder"))
      .def("add_files", &add_files, py::arg("parent"), py::arg("files"))
      .def("add_found", &add_found, py::arg("parent"), py::arg("folder"), py::arg("path"))
      .def("add_link",
           &change<&EntryList::add_link, uint32_t, std::string_view, std::string_view, int64_t>,
           py::arg("parent"), py::arg("name"), py::arg("target"), py::arg("mtime_ns"))
      .def("describe_folder", &change<&EntryList::describe_folder, uint32_t, uint32_t, int64_t>,
           py::arg("folder"), py::arg("mode"), py::arg("mtime_ns"))
      .def("normalize", &change<&EntryList::normalize, int64_t>, py::arg("mtime_ns"))
      .def_property_readonly("file_count", &number_of<&EntryList::file_count>)
      .def_property_readonly(
          "folder_count",
          [](const List& self) { return number_of<&EntryList::folder_count>(self) - 1; })
      .def_property_readonly("link_count", &number_of<&EntryList::link_count>)
      .def_property_readonly("byte_count", &number_of<&EntryList::byte_count>)
      .def("sizes", &sizes)
      .def("paths", &paths, py::arg("files"))
      .def("share", &change<&EntryList::share, uint32_t, uint32_t>, py::arg("file"),
           py::arg("original"))
      .def("find", &find, py::arg("path"))
      .def("number", &number, py::arg("order") = "path")
      .def("number_by", &number_by, py::arg("files"))
      .def_property_readonly("record_count",
                             [](const List& self) {
    return self.read_numbered([](const EntryList& list) { return list.record_count(); });
  })
      .def("files", &files, py::arg("first"), py::arg("count"))
      .def("costs", &costs, py::arg("first"), py::arg("count"))
      .def("rows", &rows, py::arg("first"), py::arg("count"))
      .def("folder", &folder, py::arg("number"))
      .def("listing", &listing, py::arg("first"), py::arg("count"));
  module.attr("PACK_COST") = kPackCost;
  module.def("file_cost", &file_cost, py::arg("size"), py::arg("name"));
  module.def("link_cost", &link_cost, py::arg("name_size"), py::arg("target_size"));
  module.def("folder_cost", &folder_cost, py::arg("depth"), py::arg("path_size"));
}

}  // namespace ffrfs::python
