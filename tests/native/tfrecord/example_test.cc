// native/tfrecord/wire and example: the meaning of protobuf messages, and hostile bytes.

#include "tfrecord/example.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>

#include "damage.h"
#include "examples.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

const Bytes kGroup = tag(9, 3) + tag(8, 0) + varint(300) + tag(7, 3) + tag(7, 4) + tag(9, 4);
// One field of each wire type, with a number that no message of ours has.
const Bytes kUnknown = tag(15, 0) + varint(1) + tag(15, 1) + Bytes(8, 'x') + field(15, "abc") +
                       tag(15, 5) + Bytes(4, 'x') + kGroup;

// A copy of the bytes in memory of their size, so that a sanitizer sees a read beyond it.
struct Alone {
  explicit Alone(const Bytes& bytes)
      : size(bytes.size()), memory(std::make_unique<std::byte[]>(bytes.size())) {
    std::memcpy(memory.get(), bytes.data(), size);
  }
  [[nodiscard]] std::span<const std::byte> span() const { return {memory.get(), size}; }

  size_t size;
  std::unique_ptr<std::byte[]> memory;
};

std::string fault_of(const Bytes& message) {
  const Alone alone(message);
  WireReader reader(alone.span());
  while (reader.next()) {
  }
  const WireFault& fault = reader.fault();
  if (!fault) return "";
  return fault.reason + (" at " + std::to_string(fault.offset_in(alone.span())));
}

template <typename T, typename Visit> void visit_values(Feature feature, Visit visit) {
  (void)feature.lists().for_each<T>(visit);
}

std::vector<Bytes> bytes_of(const Bytes& feature) {
  std::vector<Bytes> values;
  visit_values<BytesValue>({view(feature)}, [&](auto value) { values.push_back(text(value)); });
  return values;
}
std::vector<float> floats_of(const Bytes& feature) {
  std::vector<float> values;
  visit_values<float>({view(feature)}, [&](float value) { values.push_back(value); });
  return values;
}
std::vector<int64_t> ints_of(const Bytes& feature) {
  std::vector<int64_t> values;
  visit_values<int64_t>({view(feature)}, [&](int64_t value) { values.push_back(value); });
  return values;
}

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

std::vector<std::string> names_of(const Bytes& record) {
  std::vector<std::string> names;
  CHECK_FALSE(for_each_feature(view(record),
                               [&](std::string_view name, Feature) { names.emplace_back(name); }));
  return names;
}

Inspection inspect_alone(const Bytes& record) {
  const Alone alone(record);
  const Inspection found = inspect(alone.span());
  if (found.kind == MessageKind::kNone) {
    REQUIRE(found.fault.reason != nullptr);
    REQUIRE(found.fault.offset_in(alone.span()) <= record.size());
  }
  return found;
}

std::string no_example(const Bytes& record) {
  const Inspection found = inspect_alone(record);
  return found.kind == MessageKind::kNone ? found.fault.reason : "an Example";
}

// Asks a record for everything. Return the number of values.
uint64_t walk(std::span<const std::byte> record) {
  uint64_t count = 0;
  const auto ask = [&](Feature feature) {
    uint64_t visited = 0;
    visit_values<BytesValue>(feature, [&](auto) { ++visited; });
    visit_values<float>(feature, [&](float) { ++visited; });
    visit_values<int64_t>(feature, [&](int64_t) { ++visited; });
    REQUIRE(visited == feature.value_count());
    count += visited;
  };
  (void)for_each_feature(record, [&](auto, Feature feature) { ask(feature); });
  (void)for_each_feature_list(record,
                              [&](auto, FeatureList list) { (void)list.for_each_step(ask); });
  return count;
}

}  // namespace

TEST_CASE("every wire type is read or skipped, and a fault has its offset") {
  CHECK(fault_of("") == "");
  CHECK(fault_of(kUnknown) == "");
  CHECK(fault_of(tag(1, 0) + Bytes(9, '\xff') + '\x7f') == "");  // the upper bits are dropped
  CHECK(fault_of("\x80") == "a number that is cut off at 0");
  CHECK(fault_of(kUnknown + tag(1, 0)) ==
        "a number that is cut off at " + std::to_string(kUnknown.size()));
  CHECK(fault_of(tag(1, 0) + Bytes(10, '\xff')) == "a number of too many bytes at 0");
  CHECK(fault_of(Bytes(5, '\xff') + '\0') == "a number of too many bytes at 0");
  CHECK(fault_of(Bytes(4, '\xff') + '\x7f') == "a field number that is too large at 0");
  CHECK(fault_of(Bytes(2, '\0')) == "field number 0 at 0");
  CHECK(fault_of(tag(1, 6)) == "a field of no known wire type at 0");
  CHECK(fault_of(tag(1, 7)) == "a field of no known wire type at 0");
  CHECK(fault_of(tag(1, 1) + Bytes(7, 'x')) == "a field that ends beyond its message at 0");
  CHECK(fault_of(tag(1, 5) + Bytes(3, 'x')) == "a field that ends beyond its message at 0");
  CHECK(fault_of(tag(1, 2) + varint(3) + "ab") == "a field that ends beyond its message at 0");
  CHECK(fault_of(tag(1, 2) + Bytes(4, '\xff') + '\x0f') ==
        "a field that ends beyond its message at 0");
  CHECK(fault_of(tag(1, 2) + Bytes(9, '\xff') + '\x01') == "a number of too many bytes at 0");
}

TEST_CASE("groups without an end and groups that nest too deep are refused") {
  CHECK(fault_of(tag(9, 4)) == "the end of a group that has not begun at 0");
  CHECK(fault_of(tag(9, 3)) == "a group without an end at 0");
  CHECK(fault_of(tag(9, 3) + tag(8, 4)) == "the end of another group at 1");
  CHECK(fault_of(tag(9, 3) + tag(1, 2) + varint(9)) == "a field that ends beyond its message at 1");
  const auto nested = [](size_t depth) {
    Bytes bytes;
    for (size_t i = 0; i < depth; ++i) bytes += tag(9, 3);
    for (size_t i = 0; i < depth; ++i) bytes += tag(9, 4);
    return bytes;
  };
  CHECK(fault_of(nested(100)) == "");
  CHECK(fault_of(nested(101)) == "groups that nest too deep at 100");
  CHECK(fault_of(nested(100'000)) == "groups that nest too deep at 100");

  const Bytes message = kGroup + field(1, "a");
  WireReader reader(view(message));
  REQUIRE(reader.next());
  CHECK(reader.is(9, WireType::kGroup));
  REQUIRE(reader.next());
  CHECK(reader.is(1, WireType::kBytes));
}

TEST_CASE("a feature gives its values of the three kinds") {
  const Bytes long_value = pattern(300, 1);
  CHECK(bytes_of(bytes_list({"a", "", long_value})) == std::vector<Bytes>{"a", "", long_value});
  CHECK(floats_of(float_list({1.5F, -2, 0})) == Floats{1.5F, -2, 0});
  const Ints ints{0, 127, 128, -1, INT64_MAX, INT64_MIN};
  CHECK(ints_of(int64_list(ints)) == ints);
  const Ints many(20'000, 300);  // the length of this list takes three bytes
  CHECK(ints_of(int64_list(many)) == many);
  CHECK(Feature{view(int64_list(ints))}.value_count() == 6);
  CHECK(Feature{view(int64_list(ints))}.kind() == FeatureKind::kInt64);
  CHECK(floats_of(int64_list(ints)).empty());

  for (const Bytes& empty : {bytes_list({}), float_list({}), int64_list({})}) {
    CHECK(Feature{view(empty)}.kind() != FeatureKind::kNone);
    CHECK(Feature{view(empty)}.value_count() == 0);
  }
  CHECK(Feature{view("")}.kind() == FeatureKind::kNone);
  CHECK(Feature{view(kUnknown)}.kind() == FeatureKind::kNone);
}

TEST_CASE("lists are read packed or not, and mixed, among unknown fields") {
  const Bytes unpacked_int = tag(1, 0) + varint(7);
  const Bytes packed_ints = field(1, varint(8) + varint(300));
  CHECK(ints_of(field(3, unpacked_int)) == Ints{7});
  CHECK(ints_of(field(3, packed_ints + kUnknown + unpacked_int + packed_ints)) ==
        Ints{8, 300, 7, 8, 300});
  const Bytes unpacked_float = tag(1, 5) + fixed32(2.5F);
  CHECK(floats_of(field(2, unpacked_float)) == Floats{2.5F});
  CHECK(floats_of(field(2, unpacked_float + kUnknown + field(1, fixed32(3)))) == Floats{2.5F, 3});
  CHECK(bytes_of(field(1, kUnknown + field(1, "a") + kUnknown + field(1, "b"))) ==
        std::vector<Bytes>{"a", "b"});
  // A field of the wrong wire type counts as an unknown one.
  CHECK(ints_of(field(3, tag(1, 5) + fixed32(1) + unpacked_int)) == Ints{7});
  CHECK(floats_of(field(2, tag(1, 0) + varint(1))).empty());
  CHECK(bytes_of(field(1, tag(1, 0) + varint(1))).empty());
}

TEST_CASE("the last kind of a feature counts; lists of one kind in a row are joined") {
  const Bytes one = int64_list({1});
  const Bytes two = int64_list({2});
  CHECK(ints_of(one + two) == Ints{1, 2});
  CHECK(ints_of(one + kUnknown + two) == Ints{1, 2});
  CHECK(ints_of(one + bytes_list({"x"}) + two) == Ints{2});
  CHECK(ints_of(one + bytes_list({}) + two + two) == Ints{2, 2});
  CHECK(bytes_of(one + bytes_list({"x"})) == std::vector<Bytes>{"x"});
  CHECK(Feature{view(one + float_list({}))}.kind() == FeatureKind::kFloat);
}

TEST_CASE("the features of an Example are visited in order") {
  const Bytes a = entry("a", int64_list({1}));
  const Bytes b = entry("b", int64_list({2}));
  using Names = std::vector<std::string>;
  CHECK(names_of("") == Names{});
  CHECK(names_of(example("")) == Names{});
  CHECK(names_of(example(a + b)) == Names{"a", "b"});
  CHECK(names_of(example(a) + example(b)) == Names{"a", "b"});  // the two messages merge
  CHECK(names_of(example(a + kUnknown + b + a) + kUnknown) == Names{"a", "b", "a"});
  CHECK(names_of(example(field(1, ""))) == Names{""});  // an entry without key and value
  // The value comes before the key; the last key counts.
  const Bytes odd = field(2, int64_list({5})) + field(1, "x") + kUnknown + field(1, "y");
  CHECK(names_of(example(field(1, odd))) == Names{"y"});

  const auto reason = [](const Bytes& record) {
    const WireFault fault = for_each_feature(view(record), [](auto, Feature) {});
    return std::string(fault ? fault.reason : "none");
  };
  CHECK(reason(example(entry("\xff", ""))) == "a name that is not UTF-8");
  CHECK(reason(example(field(1, field(2, "") + field(2, "")))) == "a name with two values");
  CHECK(reason(example(a + "\x0a")) == "a number that is cut off");
}

TEST_CASE("names must be UTF-8, as strictly as in protobuf") {
  const auto is_name = [](const Bytes& name) {
    return inspect_alone(example(entry(name, int64_list({1})))).kind == MessageKind::kExample;
  };
  for (const char* good : {"", "a", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xc3\xa4z"}) {
    CAPTURE(good);
    CHECK(is_name(good));
  }
  for (const char* bad : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2z", "\xe0\x9f\xbf",
                          "\xed\xa0\x80", "\xe1\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xf0\x90\x80z", "\xff", "a\xc3"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_name(bad));
  }
}

TEST_CASE("golden records have the expected kind, and all their values are walked") {
  size_t feature_count = 0;
  for (const Bytes& record : golden_records("examples.tfrecord")) {
    CHECK(inspect_alone(record).kind == MessageKind::kExample);
    feature_count += names_of(record).size();
    CHECK(walk(view(record)) > 0);
  }
  CHECK(feature_count >= 50);
  for (const Bytes& record : golden_records("sequences.tfrecord")) {
    CHECK(inspect_alone(record).kind == MessageKind::kSequenceExample);
    std::vector<std::string> lists;
    CHECK_FALSE(for_each_feature_list(
        view(record), [&](std::string_view name, FeatureList) { lists.emplace_back(name); }));
    CHECK(lists.size() == 2);
  }
  for (const Bytes& record : golden_records("raw.tfrecord")) {
    CHECK(inspect_alone(record).kind == MessageKind::kNone);
  }
}

TEST_CASE("a record that is no Example is refused, with the reason") {
  const Bytes a = entry("a", int64_list({1}));
  CHECK(no_example(example(a)) == "an Example");
  CHECK(no_example(example(a) + kUnknown) == "an Example");
  CHECK(no_example("") == "no feature");
  CHECK(no_example(example("")) == "no feature");
  CHECK(no_example(kUnknown) == "a field of no Example");
  CHECK(no_example(kUnknown + example(a)) == "a field of no Example");
  CHECK(no_example(example(a) + tag(1, 0) + varint(1)) == "a field of no Example");
  CHECK(no_example(example(a + kUnknown)) == "a field of no Example");
  CHECK(no_example("a line of text\n") == "a field of no Example");
  CHECK(no_example("go") == "a field of no known wire type");
  CHECK(no_example(Bytes(70'000, 'x')) == "a field of no Example");
  CHECK(no_example("\xff\xd8\xff\xe0 an image") != "an Example");
  CHECK(no_example("\x89PNG\r\n\x1a\n") != "an Example");
  CHECK(no_example("{\"a\": 1}") != "an Example");
  CHECK(no_example("\n\n\n\n\n\n\n\n\n\n\n\n") != "an Example");
  // Sound up to the last value.
  CHECK(no_example(example(a + entry("b", field(3, field(1, "\x80"))))) ==
        "a number that is cut off");
  CHECK(no_example(example(entry("b", field(2, field(1, "abc"))))) ==
        "packed floats that end within a float");
  CHECK(no_example(example(entry("b", field(1, tag(1, 2) + varint(5))))) ==
        "a field that ends beyond its message");

  const Bytes lists = field(2, entry("l", field(1, int64_list({1})) + field(1, "")));
  CHECK(inspect_alone(example(a) + lists).kind == MessageKind::kSequenceExample);
  CHECK(inspect_alone(lists).kind == MessageKind::kSequenceExample);
  CHECK(no_example(example(a) + field(2, entry("l", field(1, field(3, field(1, "\x80")))))) ==
        "a number that is cut off");
}

TEST_CASE("damaged golden records are walked or refused, within their bytes") {
  const std::vector<Bytes> golden = small_golden_records();
  REQUIRE(golden.size() > 20);
  size_t sound_count = 0;
  for (uint64_t seed = 0; seed < seed_count(); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Bytes bytes = damaged(golden[random() % golden.size()], random);
    const Alone alone(bytes);
    REQUIRE(walk(alone.span()) <= bytes.size());
    sound_count += inspect_alone(bytes).kind != MessageKind::kNone;
  }
  CHECK(sound_count > seed_count() / 50);
  CHECK(sound_count < seed_count() - seed_count() / 50);
}
