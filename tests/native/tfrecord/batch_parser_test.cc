// native/tfrecord/batch_parser: columns from records, also from hostile ones.
// tests/tfrecord/test_parse.py shows that the results are those of TensorFlow.

#include "tfrecord/batch_parser.h"

#include <doctest/doctest.h>

#include <atomic>

#include "damage.h"
#include "examples.h"
#include "io/error.h"
#include "threads.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

FeatureSpec fixed(const char* name, FeatureKind kind, size_t stride = 1) {
  FeatureSpec spec;
  spec.name = name;
  spec.kind = kind;
  spec.stride = stride;
  return spec;
}

FeatureSpec variable(const char* name, FeatureKind kind) {
  FeatureSpec spec = fixed(name, kind);
  spec.layout = Layout::kVariable;
  return spec;
}

FeatureSpec sequence(const char* name, FeatureKind kind, size_t stride) {
  FeatureSpec spec = fixed(name, kind, stride);
  spec.layout = Layout::kSequence;
  return spec;
}

std::vector<BytesValue> views(const std::vector<Bytes>& records) {
  std::vector<BytesValue> views;
  for (const Bytes& record : records) views.push_back(view(record));
  return views;
}

std::vector<Column> parse(const BatchParser& parser, const std::vector<Bytes>& records) {
  std::vector<Column> columns(parser.specs().size());
  parser.parse(views(records), columns);
  return columns;
}

std::string refusal(const BatchParser& parser, const std::vector<Bytes>& records) {
  try {
    (void)parse(parser, records);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "none";
}

using Ints = std::vector<int64_t>;
using Ends = std::vector<size_t>;

Ints ints_of(const Column& column) { return column.of<int64_t>(); }

std::vector<Bytes> texts_of(const Column& column) {
  std::vector<Bytes> texts;
  for (const BytesValue value : column.of<BytesValue>()) texts.push_back(text(value));
  return texts;
}

constexpr auto kInt64 = FeatureKind::kInt64;
constexpr auto kFloat = FeatureKind::kFloat;
constexpr auto kBytes = FeatureKind::kBytes;

}  // namespace

TEST_CASE("columns of every layout are parsed, whatever the order of the features") {
  FeatureSpec with_default = fixed("d", kBytes, 2);
  with_default.has_default = true;
  std::get<Values<std::string>>(with_default.defaults) = {"x", ""};
  const BatchParser parser(
      {fixed("i", kInt64), variable("v", kInt64), with_default, sequence("s", kFloat, 2)});
  const Bytes i = entry("i", int64_list({5}));
  const Bytes v = entry("v", int64_list({1, 2, 3}));
  const Bytes d = entry("d", bytes_list({"a", "b"}));
  const Bytes s = entry("s", float_list({1, 2, 3, 4}));
  const Bytes other = entry("other", bytes_list({pattern(5000, 1)}));
  const std::vector<Bytes> records{example(i + v + d + s), example(s + other + i),
                                   example(other + v + d + i), example(i) + example(d)};
  const auto columns = parse(parser, records);
  CHECK(ints_of(columns[0]) == Ints{5, 5, 5, 5});
  CHECK(ints_of(columns[1]) == Ints{1, 2, 3, 1, 2, 3});
  CHECK(columns[1].ends == Ends{3, 3, 6, 6});
  CHECK(texts_of(columns[2]) == std::vector<Bytes>{"a", "b", "x", "", "a", "b", "a", "b"});
  CHECK(columns[3].of<float>().size() == 8);
  CHECK(columns[3].ends == Ends{4, 8, 8, 8});
}

TEST_CASE("numbers of a fixed length go into the caller's memory") {
  const BatchParser parser({fixed("a", kInt64, 2), fixed("b", kFloat)});
  int64_t ints[4] = {};
  float floats[2] = {};
  std::vector<Column> columns(2);
  columns[0].memory = ints;
  columns[1].memory = floats;
  const std::vector<Bytes> records{
      example(entry("a", int64_list({1, 2})) + entry("b", float_list({0.5F}))),
      example(entry("b", float_list({1.5F})) + entry("a", int64_list({3, 4})))};
  parser.parse(views(records), columns);
  CHECK(Ints(ints, ints + 4) == Ints{1, 2, 3, 4});
  CHECK(floats[1] == 1.5F);
  // Too many values are counted, not written.
  CHECK_THROWS_AS(
      parser.parse_one(view(example(entry("a", int64_list(Ints(1000, 7))))), "", columns),
      FormatError);
}

TEST_CASE("the last of two features of one name counts, whichever it is") {
  const BatchParser parser({variable("a", kInt64)});
  const Bytes one = entry("a", int64_list({1}));
  const Bytes two = entry("a", int64_list({2, 2}));
  const auto columns = parse(parser, {example(one + two), example(two + one),
                                      example(two) + example(one), example(one + entry("a", ""))});
  CHECK(ints_of(columns[0]) == Ints{2, 2, 1, 1});
  CHECK(columns[0].ends == Ends{2, 3, 4, 4});
}

TEST_CASE("a feature is found among more features than are remembered by position") {
  const BatchParser parser({fixed("f3000", kInt64), variable("nowhere", kInt64)});
  Bytes entries;
  for (int64_t i = 0; i < 4000; ++i) entries += entry("f" + std::to_string(i), int64_list({i}));
  const auto columns = parse(parser, {example(entries), example(entries)});
  CHECK(ints_of(columns[0]) == Ints{3000, 3000});
  CHECK(columns[1].ends == Ends{0, 0});
}

TEST_CASE("errors name the example and the feature, the value found and the one expected") {
  const BatchParser parser({fixed("a", kInt64, 2), sequence("s", kInt64, 2)});
  const Bytes good = example(entry("a", int64_list({1, 2})));
  CHECK(refusal(parser, {good, good}) == "none");
  CHECK(refusal(parser, {good, ""}) ==
        "example 1, feature \"a\": is not there, and is required: int64_list of 2 values");
  CHECK(refusal(parser, {good, example(entry("a", ""))}) ==
        "example 1, feature \"a\": is not there, and is required: int64_list of 2 values");
  CHECK(refusal(parser, {example(entry("a", int64_list({1})))}) ==
        "example 0, feature \"a\": 1 value, expected 2");
  CHECK(refusal(parser, {example(entry("a", int64_list({})))}) ==
        "example 0, feature \"a\": 0 values, expected 2");
  CHECK(refusal(parser, {example(entry("a", bytes_list({"x", "y"})))}) ==
        "example 0, feature \"a\": holds bytes_list, expected int64_list");
  CHECK(refusal(parser, {good + example(entry("s", int64_list({1, 2, 3})))}) ==
        "example 0, feature \"s\": 3 values, expected a multiple of 2");
  CHECK(refusal(parser, {good, good + "\x0a\x05"}) ==
        "example 1: is not an Example: a field that ends beyond its message at byte " +
            std::to_string(good.size()) + " of " + std::to_string(good.size() + 2));
  CHECK(refusal(parser, {example(entry("a", field(3, field(1, "\x01\x80"))))}) ==
        "example 0: is not an Example: a number that is cut off at byte 14 of 15");
  CHECK(refusal(parser, {example(entry("\xff", ""))}) ==
        "example 0: is not an Example: a name that is not UTF-8 at byte 6 of 9");
}

TEST_CASE("the context and the feature lists of sequences are parsed") {
  const Bytes context = example(entry("id", int64_list({7})) + entry("none", ""));
  const Bytes steps = field(1, int64_list({1, 2})) + field(1, int64_list({3, 4}));
  const Bytes ragged =
      field(1, bytes_list({"a"})) + field(1, "") + field(1, bytes_list({"b", "c"}));
  const Bytes record = context + field(2, entry("steps", steps) + entry("ragged", ragged));

  std::vector<Column> one(1);
  BatchParser({fixed("id", kInt64)}).parse_context(view(record), "", one);
  CHECK(ints_of(one[0]) == Ints{7});

  std::vector<Column> lists(3);
  const BatchParser parser(
      {fixed("steps", kInt64, 2), variable("ragged", kBytes), variable("missing", kFloat)});
  parser.parse_lists(view(record), "", lists);
  CHECK(ints_of(lists[0]) == Ints{1, 2, 3, 4});
  CHECK(texts_of(lists[1]) == std::vector<Bytes>{"a", "b", "c"});
  CHECK(lists[1].ends == Ends{1, 1, 3});
  CHECK(lists[2].ends.empty());

  const auto lists_refusal = [&](FeatureSpec spec) -> std::string {
    std::vector<Column> columns(1);
    try {
      BatchParser({std::move(spec)}).parse_lists(view(record), "r.tfrecord: record 3", columns);
    } catch (const FormatError& error) {
      return error.what();
    }
    return "none";
  };
  CHECK(lists_refusal(fixed("missing", kInt64)) ==
        "r.tfrecord: record 3: feature list \"missing\": is not there, and is required: "
        "int64_list of 1 value");
  CHECK(lists_refusal(fixed("ragged", kBytes)) ==
        "r.tfrecord: record 3: feature list \"ragged\", step 1: holds no list, expected "
        "bytes_list");
  CHECK(lists_refusal(fixed("steps", kInt64, 3)) ==
        "r.tfrecord: record 3: feature list \"steps\", step 0: 2 values, expected 3");

  std::vector<Column> columns(1);
  CHECK_THROWS_WITH_AS(
      BatchParser({fixed("none", kInt64)}).parse_context(view(record), "", columns),
      "context feature \"none\": holds no list, expected int64_list", FormatError);
}

TEST_CASE("threads share a parser") {
  const BatchParser parser({variable("image/height", kInt64), variable("embedding", kFloat),
                            variable("image/format", kBytes)});
  const std::vector<Bytes> records = golden_records("examples.tfrecord");
  const Ints expected = ints_of(parse(parser, records)[0]);
  REQUIRE(expected.size() == records.size());
  std::atomic<int> same_count = 0;
  in_threads(4, [&] {
    for (int i = 0; i < 50; ++i) same_count += ints_of(parse(parser, records)[0]) == expected;
  });
  CHECK(same_count == 200);
}

TEST_CASE("damaged golden records give columns or an error, and no more values than bytes") {
  const std::vector<Bytes> golden = small_golden_records();
  const BatchParser examples({variable("image/height", kInt64), sequence("embedding", kFloat, 2),
                              variable("image/format", kBytes), variable("weights", kFloat),
                              variable("tags", kBytes), variable("label", kInt64)});
  const BatchParser lists({fixed("frames", kFloat, 3), variable("tokens", kInt64)});
  size_t parsed_count = 0;
  for (uint64_t seed = 0; seed < seed_count(); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<Bytes> batch;
    for (uint64_t left = 1 + random() % 3; left > 0; --left) {
      const Bytes& record = golden[random() % golden.size()];
      batch.push_back(random() % 2 == 0 ? record : damaged(record, random));
    }
    size_t size = 0;
    for (const Bytes& record : batch) size += record.size();
    try {
      for (const Column& column : parse(examples, batch)) {
        REQUIRE(column.ends.size() == batch.size());
        REQUIRE(column.of<int64_t>().size() + column.of<float>().size() +
                    column.of<BytesValue>().size() <=
                size);
        for (const BytesValue value : column.of<BytesValue>()) REQUIRE(value.size() <= size);
      }
      ++parsed_count;
    } catch (const FormatError& error) {
      REQUIRE(std::string_view(error.what()).starts_with("example "));
    }
    try {
      std::vector<Column> columns(2);
      lists.parse_lists(view(batch[0]), "", columns);
    } catch (const FormatError&) {
    }
  }
  CHECK(parsed_count > seed_count() / 10);
  CHECK(parsed_count < seed_count());
}
