#include "python/convert.h"

#include <new>
#include <stdexcept>

#include "io/error.h"
#include "python/array_memory.h"
#include "record/file_packer.h"
#include "record/writer.h"
#include "tree/folder_list.h"

namespace ffrfs::python {
namespace {

py::object make_error(const char* name, const std::string& text) {
  return py::module_::import("ffrfs.errors").attr(name)(fs_text(text));
}

}  // namespace

py::str fs_text(const std::string& text) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

py::object to_python(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UnsafeIndexError& known) {
    return make_error("UnsafeIndexError", known.what());
  } catch (const TruncatedError& known) {
    return make_error("TruncatedError", known.what());
  } catch (const FormatError& known) {
    return make_error("FormatError", known.what());
  } catch (const ChecksumError& known) {
    return make_error("ChecksumError", known.what());
  } catch (const RecordCountError& known) {
    return make_error("RecordCountError", known.what());
  } catch (const FileChangedError& known) {
    return make_error("PackError", known.what());
  } catch (const FolderListError& known) {
    return make_error("PackError", known.what());
  } catch (const std::invalid_argument& known) {
    return py::reinterpret_borrow<py::object>(PyExc_ValueError)(fs_text(known.what()));
  } catch (const WriterClosedError& known) {
    return py::reinterpret_borrow<py::object>(PyExc_ValueError)(fs_text(known.what()));
  } catch (const StorageError& known) {
    // OSError(errno, text, filename) becomes the fitting subclass by itself.
    return py::reinterpret_borrow<py::object>(PyExc_OSError)(
        known.code(), fs_text(known.reason()), fs_text(known.path()));
  } catch (const RangeError& known) {
    return py::reinterpret_borrow<py::object>(PyExc_IndexError)(fs_text(known.what()));
  } catch (const std::bad_alloc&) {
    return py::reinterpret_borrow<py::object>(PyExc_MemoryError)();
  } catch (const std::exception& unknown) {
    return py::reinterpret_borrow<py::object>(PyExc_RuntimeError)(fs_text(unknown.what()));
  }
}

void raise(const std::exception_ptr& error) {
  const py::object exception = to_python(error);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw py::error_already_set();
}

size_t to_index(py::handle object) {
  const Py_ssize_t index = PyNumber_AsSsize_t(object.ptr(), PyExc_IndexError);
  if (index == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (index < 0) throw RangeError("record number " + std::to_string(index) + " is negative");
  return static_cast<size_t>(index);
}

py::list read_arrays(BatchReader& reader, const std::vector<Extent>& extents, bool check) {
  py::list arrays(extents.size());
  std::vector<BatchItem> items;
  items.reserve(extents.size());
  {
    const ArrayMemoryScope warm;
    for (size_t i = 0; i < extents.size(); ++i) {
      py::array_t<uint8_t> array(static_cast<py::ssize_t>(extents[i].size));
      auto* memory = reinterpret_cast<std::byte*>(array.mutable_data());
      items.push_back({extents[i], {memory, static_cast<size_t>(extents[i].size)}, nullptr});
      arrays[i] = std::move(array);
    }
  }
  {
    const py::gil_scoped_release unlocked;
    reader.read(items, check);
  }
  for (const BatchItem& item : items) {
    if (item.error) raise(item.error);
  }
  return arrays;
}

py::list to_list(const std::vector<std::pair<uint64_t, std::string>>& bad) {
  py::list list;
  for (const auto& [record, reason] : bad) list.append(py::make_tuple(record, fs_text(reason)));
  return list;
}

BytesView::BytesView(py::handle object) {
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
}

}  // namespace ffrfs::python
