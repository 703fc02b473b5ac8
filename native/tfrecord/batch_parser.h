// Parses serialised Examples, or one SequenceExample, into columns, for a fixed set of features.
// The results are those of tf.io.parse_example and its siblings
// (tensorflow/core/util/example_proto_fast_parsing.cc, core/kernels/example_parsing_ops.cc).
//
// Only the wanted features are parsed; of the others it is only checked that their bytes are within
// the record. Errors are FormatErrors that name the feature and the example.
//
// Not here: arrays (native/python/examples.cc).

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tfrecord/feature_column.h"

namespace ffrfs {

// Immutable and thread-safe.
class BatchParser {
 public:
  explicit BatchParser(std::vector<FeatureSpec> specs);

  [[nodiscard]] std::span<const FeatureSpec> specs() const { return specs_; }

  // Parses one row per example. `columns` has one element per spec. Views of bytes in them are
  // valid as long as `examples` and the parser.
  void parse(std::span<const BytesValue> examples, std::span<Column> columns) const;

  // Parses one row, from an Example. Errors begin with `name`, if it is not empty.
  void parse_one(BytesValue example, std::string_view name, std::span<Column> columns) const;

  // Parses one row, from the context of a SequenceExample. As in TensorFlow, a feature without a
  // list is an error here, but counts as missing in an Example.
  void parse_context(BytesValue sequence, std::string_view name, std::span<Column> columns) const;

  // Parses one row per step of each feature list, so columns may have different numbers of rows.
  void parse_lists(BytesValue sequence, std::string_view name, std::span<Column> columns) const;

 private:
  class Pass;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  std::vector<FeatureSpec> specs_;
  std::unordered_map<std::string, size_t, Hash, std::equal_to<>> by_name_;
};

}  // namespace ffrfs
