// Parts of a volume's tree in Python, and the values that tell of an inode.
//
// Everything here needs the GIL, and waits for nothing but pages of a mapped index.

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

// `part` is the one of `volume` that knows `ino`; None: there is no such inode.
[[nodiscard]] py::object attributes_in(const Volume& volume, const Tree& part, Ino ino);
// (name, attributes) of up to `limit` entries from position `start`.
[[nodiscard]] py::list entries_in(const Volume& volume, const Tree& part, Ino ino,
                                  uint64_t start, uint64_t limit);
// (record, CRC-32 or None) of a file; None of all else.
[[nodiscard]] py::object record_in(const Volume& volume, const Tree& part, Ino ino);

// Adds TreePart and Attributes to the module.
void bind_tree_part(py::module_& module);

}  // namespace ffrfs::python
