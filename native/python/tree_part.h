// Parts of a volume's tree in Python, and the values that describe an inode.
//
// Everything here needs the GIL, and releases it around the tree: pages of a mapped index may be at
// a server.

#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>

#include "volume/volume.h"

namespace ffrfs::python {

namespace py = pybind11;

// A part of the tree, which keeps its volume open.
struct PyTreePart {
  std::shared_ptr<Volume> volume;
  TreePtr part;
};

// `part` is the part of `volume` that has `ino`. Returns None if the inode does not exist.
[[nodiscard]] py::object attributes_in(const Volume& volume, const Tree& part, Ino ino);
// Returns (name, attributes) of up to `limit` entries from position `start`.
[[nodiscard]] py::list entries_in(const Volume& volume, const Tree& part, Ino ino, uint64_t start,
                                  uint64_t limit);
// Returns (record, CRC-32 or None) of a file; None for any other inode.
[[nodiscard]] py::object record_in(const Volume& volume, const Tree& part, Ino ino);

// Returns the target of a symbolic link.
[[nodiscard]] py::bytes target_in(const Tree& part, Ino ino);

// Adds TreePart and Attributes to the module.
void bind_tree_part(py::module_& module);

}  // namespace ffrfs::python
