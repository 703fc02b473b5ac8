#include "python/convert.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <optional>

#include "io/error.h"
#include "io/wait_check.h"
#include "python/array_memory.h"

namespace ffrfs::python {
namespace {

// The daemon also uses from_fields() for errors that its worker reports.
py::object exception_of(const ErrorFields& fields) {
  return py::module_::import("ffrfs.errors")
      .attr("from_fields")(fields.kind, fs_text(fields.reason), fs_text(fields.path), fields.record,
                           fields.code);
}

bool is_pooled(const Extent& extent) { return extent.size >= ArrayMemoryScope::kSmallestPooled; }

// `format`: of a buffer; it may be null. Names of fields are between colons there.
bool has_objects(const char* format) {
  bool is_name = false;
  for (; format != nullptr && *format != '\0'; ++format) {
    if (*format == ':') is_name = !is_name;
    if (*format == 'O' && !is_name) return true;
  }
  return false;
}

// Returns whether an array of NumPy holds Python objects.
bool has_objects(py::handle array) {
  const py::object kind = py::getattr(array, "dtype", py::none());
  return py::getattr(kind, "hasobject", py::none()).is(py::bool_(true));
}

}  // namespace

py::list to_bytes_list(const std::vector<std::string>& texts) {
  py::list list;
  for (const std::string& text : texts) list.append(py::bytes(text));
  return list;
}

py::str fs_text(const std::string& text) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

py::object to_python(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Interrupted& interrupted) {
    return to_python(interrupted.cause);
  } catch (const py::error_already_set& own) {
    return own.value();
  } catch (...) {
    return exception_of(fields_of(error));
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

py::list read_arrays(Fetcher& fetcher, const std::vector<Extent>& extents, bool check) {
  py::list arrays(extents.size());
  std::vector<BatchItem> items;
  items.reserve(extents.size());
  {
    std::optional<ArrayMemoryScope> warm;
    if (std::ranges::any_of(extents, is_pooled)) warm.emplace();
    for (size_t i = 0; i < extents.size(); ++i) {
      py::array_t<uint8_t> array(static_cast<py::ssize_t>(extents[i].size));
      auto* memory = reinterpret_cast<std::byte*>(array.mutable_data());
      items.push_back({extents[i], {memory, static_cast<size_t>(extents[i].size)}, nullptr});
      arrays[i] = std::move(array);
    }
  }
  unlocked([&] { fetcher.read(items, check); });
  for (const BatchItem& item : items) {
    if (item.error) raise(item.error);
  }
  return arrays;
}

py::list to_list(const BadRecords& bad) {
  py::list list;
  for (const auto& [record, error] : bad) list.append(py::make_tuple(record, exception_of(error)));
  return list;
}

BytesView::BytesView(py::handle object) {
  bool is_refused = false;
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_ND | PyBUF_FORMAT) == 0) {
    is_refused = has_objects(view_.format);
  } else {  // also arrays of times, which have no format
    PyErr_Clear();
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
    is_refused = has_objects(object);
  }
  if (!is_refused) return;
  PyBuffer_Release(&view_);
  throw py::type_error("an array of Python objects holds pointers, no bytes");
}

}  // namespace ffrfs::python
