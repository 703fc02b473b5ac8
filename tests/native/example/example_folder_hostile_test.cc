// native/tree, the folder of a record: random and damaged records, and records made to be costly.

#include <doctest/doctest.h>

#include <optional>

#include "damage.h"
#include "example_folders.h"

using namespace ffrfs;
using namespace ffrfs::test;
using namespace std::string_literals;

namespace {

size_t below(Random& random, size_t limit) { return random() % limit; }

float random_float(Random& random) {
  float value = 0;
  const auto bits = static_cast<uint32_t>(random());
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

int64_t random_int64(Random& random) {
  const auto value = static_cast<int64_t>(random() >> below(random, 64));
  return below(random, 2) == 0 ? value : -value;
}

template <typename T, typename Draw>
std::vector<T> several(Random& random, size_t limit, Draw draw) {
  std::vector<T> values(below(random, limit));
  for (T& value : values) value = draw(random);
  return values;
}

Bytes random_value(Random& random) {
  static const std::vector<Bytes> kValues = {"", "png", "{}", "\xFF\xD8\xFF\xE0", "\0\1"s};
  return kValues[below(random, kValues.size())];
}

Bytes random_feature(Random& random) {
  switch (below(random, 4)) {
    case 0: return bytes_list(several<Bytes>(random, 4, random_value));
    case 1: return float_list(several<float>(random, 40, random_float));
    case 2: return int64_list(several<int64_t>(random, 40, random_int64));
    default: return "";
  }
}

Bytes random_list(Random& random) {
  return feature_list(several<Bytes>(random, 13, random_feature));
}

Bytes random_name(Random& random) {
  static const std::vector<Bytes> kParts = {"a",          "b",
                                            "/",          "/",
                                            "//",         ".",
                                            "..",         "\0"s,
                                            "~1",         "%2F",
                                            ".npy",       ".txt",
                                            "0",          "example.json",
                                            "record.bin", "\xC3\xBC",
                                            "\"\\\n",     Bytes(100, 'x')};
  Bytes name;
  for (size_t i = below(random, 5); i-- > 0;) name += kParts[below(random, kParts.size())];
  return name;
}

NamedMessages named(Random& random, Bytes (*draw)(Random&)) {
  NamedMessages messages;
  for (size_t i = below(random, 12); i-- > 0;) {
    const Bytes name = random_name(random);
    messages.emplace_back(name, draw(random));
  }
  return messages;
}

Bytes random_record(Random& random) {
  const NamedMessages features = named(random, random_feature);
  if (below(random, 2) == 0) return example_of(features);
  return sequence_example(features, named(random, random_list));
}

}  // namespace

TEST_CASE("every file of a random record can be read, and lies within the record") {
  Random random(1);
  for (uint64_t i = 0; i < seed_count() / 20; ++i) {
    const Bytes record = random_record(random);
    CAPTURE(i);
    const bool extensions = below(random, 2) == 0;
    REQUIRE(walk(record, extensions) == walk(record, extensions));
  }
}

TEST_CASE("every file of a damaged record can be read, and lies within the record") {
  Random random(2);
  auto golden = golden_records("examples.tfrecord");
  for (Bytes& record : golden_records("sequences.tfrecord")) golden.push_back(record);
  const uint64_t count = seed_count() / 8;
  uint64_t laid_out = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const Bytes sound = i % 2 == 0 ? golden[below(random, golden.size())] : random_record(random);
    const Bytes record = damaged(sound, random);
    CAPTURE(i);
    if (walk(record).size() > 1) ++laid_out;
  }
  CHECK(laid_out > count / 6);  // else the damage is too great to test anything
  CHECK(laid_out < count / 10 * 9);
}

TEST_CASE("changed bytes are refused, or give a file of the expected size") {
  Random random(3);
  size_t refused = 0;
  for (int i = 0; i < 500; ++i) {
    const Bytes record = random_record(random);
    const FolderPtr folder = make(record);
    const Ino base = ExampleTree::folder_ino(kNumber);
    for (Ino ino = base; folder->inode(ino); ++ino) {
      if (folder->inode(ino)->is_directory()) continue;
      const Contents contents = folder->contents(ino).value();
      if (!contents.rendered_size) continue;
      const Bytes part = damaged(record.substr(contents.begin, contents.size.value()), random);
      try {
        (void)rendered(*folder, ino, part);
      } catch (const FormatError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 250);
}

TEST_CASE("a record with more nodes than the limit shows record.bin alone") {
  // The other four: the record's folder, example.json, record.bin, the folder of the values.
  constexpr size_t kMost = ExampleFolder::kNodeLimit - 4;
  const auto count = [](const Bytes& record) {
    const FolderPtr folder = make(record);
    return folder->file_count() + folder->directory_count();
  };
  const auto values = [](size_t number) {
    return example_of({{"a", field(1, times(number, field(1, "")))}});
  };
  CHECK(count(values(kMost)) == ExampleFolder::kNodeLimit);
  CHECK(count(sequence_example({}, {{"a", times(kMost, field(1, int64_list({})))}})) ==
        ExampleFolder::kNodeLimit);
  CHECK(count(values(kMost + 1)) == 2);
  // Repeated features make no node, but the memory for them must be bounded, too.
  CHECK(count(example(times(ExampleFolder::kNodeLimit, entry("a", "")))) == 3);
  CHECK(count(example(times(ExampleFolder::kNodeLimit + 1, entry("a", "")))) == 2);
}

TEST_CASE("the folder of a hostile record takes less than 100 MiB of memory") {
  const auto laid_out = [](const Bytes& record) {
    const FolderPtr folder = make(record);
    CHECK(folder->memory_bytes() < 100 << 20);
    return folder->file_count() + folder->directory_count();
  };
  const Bytes bare = bytes_list({"\0"s});
  NamedMessages twins;
  for (int i = 0; i < 30000; ++i) twins.emplace_back(Bytes(240, 'x') + std::to_string(i), bare);
  CHECK(laid_out(example_of(twins)) == 30003);
  NamedMessages taken;  // all names that a twin would get are taken
  for (int i = 0; i < 30000; ++i) taken.emplace_back("a~" + std::to_string(i), bare);
  taken.emplace_back("a", bare);
  taken.emplace_back("a/b", bare);
  CHECK(laid_out(example_of(taken)) == 30006);
  NamedMessages deep;
  const Bytes folders = times(1000, "/d");
  for (int i = 0; i < 3000; ++i) deep.emplace_back(std::to_string(i) + folders, bare);
  CHECK(laid_out(example_of(deep)) == 3000 * 16 + 3);
  CHECK(laid_out(example_of({{Bytes(10 << 20, '/'), bare}})) == 15 + 4);
  CHECK(laid_out(sequence_example({}, {{"a", times(1 << 21, field(1, ""))}})) == 4);
}
