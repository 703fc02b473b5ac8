// ExampleParser: parses serialised Examples into arrays, for ffrfs.tfrecord.parsing.parse.

#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "io/checked.h"
#include "python/array_memory.h"
#include "python/convert.h"
#include "tfrecord/batch_parser.h"

namespace ffrfs::python {
namespace {

// Below this, releasing the GIL costs more than the work.
constexpr size_t kWorthReleasing = 32 << 10;

template <typename Work> void without_gil(size_t size_bytes, Work work) {
  if (size_bytes < kWorthReleasing) return work();
  const Unlocked unlocked;
  work();
}

using Shape = std::vector<py::ssize_t>;

// The bytes of many objects, which do not change while this object lives.
class RecordBytes {
 public:
  explicit RecordBytes(const py::object& objects) : objects_(objects) {
    spans_.reserve(objects_.size());
    for (const py::handle object : objects_) {
      if (PyBytes_CheckExact(object.ptr())) {
        spans_.emplace_back(reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(object.ptr())),
                            static_cast<size_t>(PyBytes_GET_SIZE(object.ptr())));
      } else {
        spans_.push_back(views_.emplace_back(std::make_unique<BytesView>(object))->bytes());
      }
      size_bytes_ += spans_.back().size();
    }
  }

  [[nodiscard]] std::span<const BytesValue> spans() const { return spans_; }
  [[nodiscard]] size_t size_bytes() const { return size_bytes_; }

 private:
  py::tuple objects_;  // a copy: a list could change while the GIL is released
  std::vector<std::unique_ptr<BytesView>> views_;
  std::vector<BytesValue> spans_;
  size_t size_bytes_ = 0;
};

template <typename T> py::array new_array(const Shape& shape) {
  if constexpr (std::is_same_v<T, BytesValue>) {
    return py::array(py::dtype("O"), shape);  // of NULLs, which NumPy treats as None
  } else {
    return py::array_t<T>(shape);
  }
}

// `array` is a new array of objects.
void put_objects(py::array& array, size_t at, std::span<const BytesValue> values) {
  auto** to = static_cast<PyObject**>(array.mutable_data()) + at;
  for (const BytesValue value : values) {
    *to = PyBytes_FromStringAndSize(reinterpret_cast<const char*>(value.data()),
                                    static_cast<Py_ssize_t>(value.size()));
    if (*to++ == nullptr) throw py::error_already_set();
  }
}

template <typename T> py::array to_array(const Values<T>& values, const Shape& shape) {
  py::array array = new_array<T>(shape);
  if constexpr (std::is_same_v<T, BytesValue>) {
    put_objects(array, 0, values);
  } else if (!values.empty()) {
    const size_t size = values.size() * sizeof(T);
    void* const to = array.mutable_data();
    without_gil(size, [&] { std::memcpy(to, values.data(), size); });
  }
  return array;
}

size_t longest_row(const Column& column) {
  size_t longest = 0;
  size_t begin = 0;
  for (const size_t end : column.ends) {
    longest = std::max(longest, end - begin);
    begin = end;
  }
  return longest;
}

py::ssize_t signed_size(size_t size) { return static_cast<py::ssize_t>(size); }

// Returns rows of different length, each padded to the longest.
template <typename T>
py::array pad(const FeatureSpec& spec, const Column& column, const Shape& shape) {
  const size_t width = longest_row(column);
  const Values<T>& values = column.of<T>();
  py::array array = new_array<T>(shape);
  const auto for_each_row = [&](auto put) {
    size_t begin = 0;
    for (size_t row = 0; row < column.ends.size(); ++row) {
      const size_t end = column.ends[row];
      put(row * width, std::span(values).subspan(begin, end - begin));
      begin = end;
    }
  };
  if constexpr (std::is_same_v<T, BytesValue>) {
    const auto& fill = std::get<Values<std::string>>(spec.defaults).at(0);
    for_each_row([&](size_t at, std::span<const T> row) {
      put_objects(array, at, row);
      const Values<T> rest(width - row.size(), std::as_bytes(std::span(fill)));
      put_objects(array, at + row.size(), rest);
    });
  } else {
    const T fill = std::get<Values<T>>(spec.defaults).at(0);
    T* const to = static_cast<T*>(array.mutable_data());
    without_gil(static_cast<size_t>(array.nbytes()), [&] {
      for_each_row([&](size_t at, std::span<const T> row) {
        std::ranges::copy(row, to + at);
        std::fill_n(to + at + row.size(), width - row.size(), fill);
      });
    });
  }
  return array;
}

// Returns the indices, the values and the shape of TensorFlow's SparseTensor. `rows`: whether an
// index includes its row.
template <typename T> py::tuple to_sparse(const Column& column, bool rows) {
  const Values<T>& values = column.of<T>();
  const py::ssize_t rank = rows ? 2 : 1;
  py::array_t<int64_t> indices(Shape{signed_size(values.size()), rank});
  int64_t* to = indices.mutable_data();
  without_gil(static_cast<size_t>(indices.nbytes()), [&] {
    size_t begin = 0;
    for (size_t row = 0; row < column.ends.size(); ++row) {
      const size_t end = column.ends[row];
      for (size_t i = 0; i < end - begin; ++i) {
        if (rows) *to++ = static_cast<int64_t>(row);
        *to++ = static_cast<int64_t>(i);
      }
      begin = end;
    }
  });
  py::array_t<int64_t> shape(rank);
  int64_t* size = shape.mutable_data();
  if (rows) *size++ = static_cast<int64_t>(column.ends.size());
  *size = static_cast<int64_t>(longest_row(column));
  return py::make_tuple(indices, to_array(values, {signed_size(values.size())}), shape);
}

FeatureKind to_kind(const std::string& name) {
  if (name == "int64") return FeatureKind::kInt64;
  if (name == "float32") return FeatureKind::kFloat;
  if (name == "bytes") return FeatureKind::kBytes;
  throw py::value_error("no kind of value: " + name);
}

Layout to_layout(const std::string& name) {
  if (name == "fixed") return Layout::kFixed;
  if (name == "sequence") return Layout::kSequence;
  if (name == "variable") return Layout::kVariable;
  throw py::value_error("no layout: " + name);
}

class ExampleParser {
 public:
  // Takes (name, kind, layout, shape, default values or None) for each feature.
  explicit ExampleParser(const py::sequence& features) {
    std::vector<FeatureSpec> specs;
    for (const py::object feature : features) {
      const auto [name, kind, layout, shape, defaults] =
          feature.cast<std::tuple<std::string, std::string, std::string, Shape, py::object>>();
      FeatureSpec spec;
      spec.name = name;
      spec.kind = to_kind(kind);
      spec.layout = to_layout(layout);
      spec.stride = stride_of(shape);
      spec.has_default = !defaults.is_none();
      if (spec.layout == Layout::kSequence && (spec.stride == 0 || !spec.has_default)) {
        throw py::value_error("a sequence of nothing, or without padding: " + name);
      }
      if (spec.has_default) set_defaults(spec, defaults);
      specs.push_back(std::move(spec));
      shapes_.push_back(shape);
    }
    parser_ = std::make_unique<BatchParser>(std::move(specs));
  }

  [[nodiscard]] py::list parse(const py::object& serialized) const {
    const RecordBytes records(serialized);
    const size_t rows = records.spans().size();
    std::vector<Column> columns = make_columns();
    const py::list results = make_fixed(columns, rows);
    without_gil(records.size_bytes(), [&] { parser_->parse(records.spans(), columns); });
    return finish(columns, results, Shape{signed_size(rows)});
  }

  [[nodiscard]] py::list parse_one(const py::object& serialized, const std::string& name) const {
    return parse_row(serialized, name, &BatchParser::parse_one);
  }

  [[nodiscard]] py::list parse_context(const py::object& serialized,
                                       const std::string& name) const {
    return parse_row(serialized, name, &BatchParser::parse_context);
  }

  [[nodiscard]] py::list parse_lists(const py::object& serialized, const std::string& name) const {
    const BytesView view(serialized);
    std::vector<Column> columns = make_columns();
    without_gil(view.bytes().size(), [&] { parser_->parse_lists(view.bytes(), name, columns); });
    return finish(columns, py::list(columns.size()), std::nullopt);
  }

 private:
  using ParseRow = void (BatchParser::*)(BytesValue, std::string_view, std::span<Column>) const;

  static size_t stride_of(const Shape& shape) {
    uint64_t stride = 1;
    for (const py::ssize_t size : shape) {
      if (size < 0) throw py::value_error("a dimension below 0");
      const auto product = checked_mul(stride, static_cast<uint64_t>(size));
      if (!product) throw py::value_error("a shape of too many values");
      stride = *product;
    }
    return stride;
  }

  static void set_defaults(FeatureSpec& spec, const py::object& defaults) {
    auto& [ints, floats, texts] = spec.defaults;
    if (spec.kind == FeatureKind::kInt64) ints = defaults.cast<Values<int64_t>>();
    if (spec.kind == FeatureKind::kFloat) floats = defaults.cast<Values<float>>();
    if (spec.kind == FeatureKind::kBytes) texts = defaults.cast<Values<std::string>>();
    const size_t count = std::max({ints.size(), floats.size(), texts.size()});
    if (count != (spec.layout == Layout::kFixed ? spec.stride : 1)) {
      throw py::value_error("not as many defaults as values: " + spec.name);
    }
  }

  [[nodiscard]] std::vector<Column> make_columns() const {
    return std::vector<Column>(parser_->specs().size());
  }

  // Returns arrays of numbers that the parser fills directly; None for other features.
  [[nodiscard]] py::list make_fixed(std::vector<Column>& columns,
                                    std::optional<size_t> rows) const {
    const ArrayMemoryScope warm;
    py::list arrays(columns.size());
    for (size_t i = 0; i < columns.size(); ++i) {
      const FeatureSpec& spec = parser_->specs()[i];
      arrays[i] = py::none();
      if (spec.layout != Layout::kFixed || spec.kind == FeatureKind::kBytes) continue;
      Shape shape = shapes_[i];
      if (rows) shape.insert(shape.begin(), signed_size(*rows));
      py::array array =
          spec.kind == FeatureKind::kInt64 ? new_array<int64_t>(shape) : new_array<float>(shape);
      columns[i].memory = array.mutable_data();
      arrays[i] = std::move(array);
    }
    return arrays;
  }

  [[nodiscard]] py::list parse_row(const py::object& serialized, const std::string& name,
                                   ParseRow parse_with) const {
    const BytesView view(serialized);
    std::vector<Column> columns = make_columns();
    const py::list results = make_fixed(columns, std::nullopt);
    const BytesValue record = view.bytes();
    without_gil(record.size(), [&] { (*parser_.*parse_with)(record, name, columns); });
    return finish(columns, results, Shape{});
  }

  // Fills in the results that are None. `lead`: the dimensions before a feature's own; nullopt: one
  // dimension, the column's steps.
  [[nodiscard]] py::list finish(const std::vector<Column>& columns, py::list results,
                                const std::optional<Shape>& lead) const {
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].memory != nullptr) continue;
      const FeatureSpec& spec = parser_->specs()[i];
      results[i] = by_kind(spec.kind, [&]<typename T>(T) -> py::object {
        const Column& column = columns[i];
        const bool has_rows = !lead || !lead->empty();
        if (spec.layout == Layout::kVariable) return to_sparse<T>(column, has_rows);
        Shape shape = lead.value_or(Shape{});
        if (!lead) shape.push_back(step_count<T>(spec, column));
        if (spec.layout == Layout::kSequence) {
          shape.push_back(signed_size(longest_row(column) / spec.stride));
        }
        shape.insert(shape.end(), shapes_[i].begin(), shapes_[i].end());
        if (spec.layout == Layout::kSequence) return pad<T>(spec, column, shape);
        return to_array(column.of<T>(), shape);
      });
    }
    return results;
  }

  template <typename T>
  static py::ssize_t step_count(const FeatureSpec& spec, const Column& column) {
    if (spec.stride == 0) throw py::value_error("steps of nothing: " + spec.name);
    return signed_size(column.of<T>().size() / spec.stride);
  }

  std::unique_ptr<BatchParser> parser_;
  std::vector<Shape> shapes_;
};

}  // namespace

void bind_examples(py::module_& module) {
  py::class_<ExampleParser>(module, "ExampleParser")
      .def(py::init<const py::sequence&>(), py::arg("features"))
      .def("parse", &ExampleParser::parse, py::arg("serialized"))
      .def("parse_one", &ExampleParser::parse_one, py::arg("serialized"), py::arg("name") = "")
      .def("parse_context", &ExampleParser::parse_context, py::arg("serialized"),
           py::arg("name") = "")
      .def("parse_lists", &ExampleParser::parse_lists, py::arg("serialized"), py::arg("name") = "");
}

}  // namespace ffrfs::python
