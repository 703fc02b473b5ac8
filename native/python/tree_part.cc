#include "python/tree_part.h"

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>

#include "python/convert.h"

namespace ffrfs::python {
namespace {

// A collections.namedtuple, made once, so that Python reads attributes by name.
py::object& attributes_type() {
  static auto* type = new py::object();  // never destroyed: the interpreter may be gone
  return *type;
}

py::object to_attributes(const Attributes& attributes) {
  return attributes_type()(attributes.ino, attributes.mode, attributes.nlink, attributes.uid,
                           attributes.gid, attributes.size, attributes.mtime_ns);
}

}  // namespace

py::object attributes_in(const Volume& volume, const Tree& part, Ino ino) {
  const auto attributes = unlocked([&] { return volume.attributes(part, ino); });
  return attributes ? to_attributes(*attributes) : py::none();
}

py::list entries_in(const Volume& volume, const Tree& part, Ino ino, uint64_t start,
                    uint64_t limit) {
  const auto [listed, attributes] = unlocked([&] {
    auto found = part.list(ino, start, limit);
    auto described = volume.attributes(part, found);
    return std::pair(std::move(found), std::move(described));
  });
  py::list entries;
  for (size_t i = 0; i < listed.size(); ++i) {
    entries.append(py::make_tuple(py::bytes(listed[i].name), to_attributes(attributes[i])));
  }
  return entries;
}

py::object record_in(const Volume& volume, const Tree& part, Ino ino) {
  const auto found = unlocked([&] {
    const auto contents = part.contents(ino);
    return contents ? std::optional(std::pair(contents->record, volume.stored_crc32(*contents)))
                    : std::nullopt;
  });
  if (!found) return py::none();
  return py::make_tuple(found->first, found->second);
}

py::bytes target_in(const Tree& part, Ino ino) {
  return {unlocked([&] { return part.target(ino); })};
}

void bind_tree_part(py::module_& module) {
  py::class_<PyTreePart>(module, "TreePart")
      .def("lookup",
           [](const PyTreePart& self, Ino parent, const std::string& name) {
    return unlocked([&] { return self.part->lookup(parent, name); });
  }, py::arg("parent"), py::arg("name"))
      .def("attributes",
           [](const PyTreePart& self, Ino ino) {
    return attributes_in(*self.volume, *self.part, ino);
  }, py::arg("ino"))
      .def("parent",
           [](const PyTreePart& self, Ino ino) {
    const auto inode = unlocked([&] { return self.part->inode(ino); });
    return inode ? inode->parent : Ino{0};
  }, py::arg("ino"))
      .def("list",
           [](const PyTreePart& self, Ino ino, uint64_t start, uint64_t limit) {
    return entries_in(*self.volume, *self.part, ino, start, limit);
  }, py::arg("ino"), py::arg("start"), py::arg("limit"))
      .def("record",
           [](const PyTreePart& self, Ino ino) { return record_in(*self.volume, *self.part, ino); },
           py::arg("ino"))
      .def("target", [](const PyTreePart& self, Ino ino) { return target_in(*self.part, ino); },
           py::arg("ino"));

  attributes_type() = py::module_::import("collections")
                          .attr("namedtuple")("Attributes", "ino mode nlink uid gid size mtime_ns",
                                              py::arg("module") = "ffrfs._native");
  module.attr("Attributes") = attributes_type();
}

}  // namespace ffrfs::python
