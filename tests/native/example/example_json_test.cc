// native/tree/example_json: its text, and its size, which is computed before it is written.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "damage.h"
#include "example_folders.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

// walk() checks that the size is the one that was computed before.
Bytes json_of(const Bytes& record) { return walk(record).at("example.json"); }

float random_float(Random& random) {
  const auto bits = static_cast<uint32_t>(random());
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

TEST_CASE("example.json has exactly the expected text") {
  // FIPS 180-2 contains the first hash; `sha256sum /dev/null` prints the second.
  const Bytes abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  const Bytes nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Bytes record = example_of(
      {{"image/encoded", bytes_list({"abc", ""})},
       {"label", int64_list({0, -1, INT64_MIN, INT64_MAX})},
       {"float", float_list({0.1F, -0.0F, 3, 1e10F, 16777216, 1.17549435e-38F, 3.4028235e38F,
                             1.4e-45F, std::nanf(""), kInfinity, -kInfinity})},
       {"nothing", ""},
       {"empty", int64_list({})},
       {"\"\\\n\x1F\xC3\xBC", float_list({})}});
  CHECK(json_of(record) == R"({
  "features": {
    "\"\\\u000a\u001fü": {"float_list": []},
    "empty": {"int64_list": []},
    "float": {"float_list": [0.1, -0.0, 3.0, 1e+10, 16777216.0, )"
                           R"(1.1754944e-38, 3.4028235e+38, 1e-45, "NaN", "Infinity", "-Infinity"]},
    "image/encoded": {"bytes_list": [{"size": 3, "sha256": ")" +
                               abc + R"("}, {"size": 0, "sha256": ")" + nothing + R"("}]},
    "label": {"int64_list": [0, -1, -9223372036854775808, 9223372036854775807]},
    "nothing": null
  }
}
)");
  CHECK(json_of(sequence_example(
            {}, {{"b", feature_list({})}, {"a", feature_list({int64_list({7}), ""})}})) == R"({
  "context": {},
  "feature_lists": {
    "a": [{"int64_list": [7]}, null],
    "b": []
  }
}
)");
}

// walk() also checks the size, which was computed without writing the numbers.

TEST_CASE("long lists of floats read back exactly") {
  Random random(7);
  std::vector<float> values = {0.0F,
                               -0.0F,
                               1.0F,
                               -16777216.0F,
                               -1.17549435e-38F,
                               1.4e-45F,
                               std::numeric_limits<float>::max(),
                               123456790.0F,
                               -1.2345679e13F};
  for (int i = 0; i < 200000; ++i) {
    const float value = random_float(random);
    if (std::isfinite(value)) values.push_back(value);
    // Whole numbers have the longest text.
    values.push_back(static_cast<float>(static_cast<int64_t>(random()) >> random() % 64));
  }
  const Bytes json = json_of(example_of({{"x", float_list(values)}}));
  const char* next = json.data() + json.find('[') + 1;
  for (const float value : values) {
    char* end = nullptr;
    const float read = std::strtof(next, &end);
    REQUIRE(std::memcmp(&read, &value, sizeof read) == 0);
    REQUIRE(std::find_if(next, static_cast<const char*>(end),
                         [](char c) { return c == '.' || c == 'e'; }) != end);
    REQUIRE((*end == ',' || *end == ']'));
    next = end + 1;
  }
}

TEST_CASE("sixteen floats are written without padding, seventeen in columns") {
  const std::vector<float> values(17, 0.5F);
  const std::vector<float> few(values.begin(), values.begin() + 16);
  CHECK(json_of(example_of({{"x", float_list(few)}})).find("0.5, 0.5") != Bytes::npos);
  CHECK(json_of(example_of({{"x", float_list(values)}}))
            .find("              0.5,               0.5") != Bytes::npos);
}

TEST_CASE("integers of any number of digits have the size that was computed") {
  std::vector<int64_t> values{0, INT64_MIN, INT64_MAX};
  for (uint64_t power = 1; power <= 1000000000000000000U; power *= 10) {
    for (const uint64_t value : {power - 1, power, power + 1}) {
      values.push_back(static_cast<int64_t>(value));
      values.push_back(-static_cast<int64_t>(value));
    }
  }
  for (const int64_t value : values) {
    CHECK(json_of(example_of({{"x", int64_list({value})}})).find(std::to_string(value) + "]") !=
          Bytes::npos);
  }
}
