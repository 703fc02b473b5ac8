// The input and output of a batch parser: one specification and one column per feature.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "tfrecord/example.h"

namespace ffrfs {

template <typename T> using Values = std::vector<T>;

enum class Layout : uint8_t {
  kFixed,     // `stride` values in every row
  kSequence,  // any multiple of `stride` in every row; rows are padded
  kVariable,  // any number of values
};

struct FeatureSpec {
  std::string name;
  FeatureKind kind = FeatureKind::kNone;
  Layout layout = Layout::kFixed;
  size_t stride = 1;  // not 0 for kSequence
  // kFixed: if false, every row must have the feature, and the feature list must exist.
  bool has_default = false;
  // Values of type `kind`. kFixed: `stride` of them if has_default; kSequence: one, for padding.
  std::tuple<Values<int64_t>, Values<float>, Values<std::string>> defaults;
};

// Has one row per example, or per step of a feature list.
struct Column {
  // kFixed: the caller's memory for rows * stride values, if it has any; otherwise nullptr, and the
  // values go to `values`.
  void* memory = nullptr;
  std::tuple<Values<int64_t>, Values<float>, Values<BytesValue>> values;
  // Except for kFixed: how many values there are up to the end of each row.
  std::vector<size_t> ends;

  template <typename T> [[nodiscard]] Values<T>& of() { return std::get<Values<T>>(values); }
  template <typename T> [[nodiscard]] const Values<T>& of() const {
    return std::get<Values<T>>(values);
  }
};

}  // namespace ffrfs
