#include "tfrecord/example.h"

#include <algorithm>

namespace ffrfs {
namespace {

// Returns the size of a UTF-8 sequence whose first byte is `lead`; 0 if there is none.
size_t sequence_size(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// Checks the second byte: no overlong form, no surrogate, nothing above U+10FFFF.
bool is_second(uint8_t lead, uint8_t second) {
  const uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  return second >= least && second <= most;
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
    const size_t size = sequence_size(byte(0));
    if (size == 0 || size > text.size() - at) return false;
    if (size > 1 && !is_second(byte(0), byte(1))) return false;
    for (size_t i = 2; i < size; ++i) {
      if ((byte(i) & 0xC0) != 0x80) return false;
    }
    at += size;
  }
  return true;
}

bool is_list(const WireReader& reader) {
  return reader.type() == WireType::kBytes && reader.number() >= 1 && reader.number() <= 3;
}

// Checks that a Features, FeatureLists or FeatureList holds only messages in field 1.
WireFault check_plain(std::span<const std::byte> message) {
  WireReader reader(message);
  while (reader.next()) {
    if (!reader.is(1, WireType::kBytes)) return {"a field of no Example", reader.begin()};
  }
  return reader.fault();
}

// Keeps the first fault.
class Faults {
 public:
  void add(const WireFault& fault) {
    if (fault && !first_) first_ = fault;
  }
  [[nodiscard]] const WireFault& first() const { return first_; }

 private:
  WireFault first_;
};

struct Content {
  size_t count = 0;  // of features, or of feature lists
  WireFault fault;
};

Content check_features(std::span<const std::byte> features) {
  Content content;
  Faults faults;
  faults.add(check_plain(features));
  faults.add(wire::for_each_entry(features, [&](auto, std::span<const std::byte> value) {
    ++content.count;
    faults.add(Feature{value}.check());
  }));
  content.fault = faults.first();
  return content;
}

Content check_feature_lists(std::span<const std::byte> lists) {
  Content content;
  Faults faults;
  faults.add(check_plain(lists));
  faults.add(wire::for_each_entry(lists, [&](auto, std::span<const std::byte> value) {
    ++content.count;
    faults.add(check_plain(value));
    faults.add(FeatureList{value}.for_each_step([&](Feature step) { faults.add(step.check()); }));
  }));
  content.fault = faults.first();
  return content;
}

}  // namespace

const char* to_text(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kBytes: return "bytes_list";
    case FeatureKind::kFloat: return "float_list";
    case FeatureKind::kInt64: return "int64_list";
    case FeatureKind::kNone: break;
  }
  return "no list";
}

Feature::Lists Feature::search_lists() const {
  Lists found;
  WireReader reader(message);
  while (reader.next()) {
    if (!is_list(reader)) continue;
    const auto kind = static_cast<FeatureKind>(reader.number());
    if (kind == found.kind) continue;
    // A field of another kind replaces the lists before it.
    found.kind = kind;
    found.bytes = {reader.begin(), message.data() + message.size()};
  }
  found.fault = reader.fault();
  return found;
}

WireFault Feature::check() const {
  WireReader reader(message);
  while (reader.next()) {
    if (!is_list(reader)) continue;
    const auto check_values = [&]<typename T>(T) {
      return for_each_value<T>(reader.bytes(), [](T) {});
    };
    const auto kind = static_cast<FeatureKind>(reader.number());
    if (const WireFault fault = by_kind(kind, check_values)) return fault;
  }
  return reader.fault();
}

uint64_t Feature::value_count() const {
  uint64_t count = 0;
  const Lists found = lists();
  (void)by_kind(found.kind,
                [&]<typename T>(T) { return found.for_each<T>([&count](T) { ++count; }); });
  return count;
}

wire::Entry wire::search_entry(std::span<const std::byte> message) {
  Entry entry;
  WireReader reader(message);
  bool has_value = false;
  while (reader.next()) {
    if (reader.is(1, WireType::kBytes)) {
      entry.name = text(reader.bytes());
    } else if (reader.is(2, WireType::kBytes)) {
      if (has_value) {
        entry.fault = {"a name with two values", reader.begin()};
        return entry;
      }
      has_value = true;
      entry.value = reader.bytes();
    }
  }
  entry.fault = reader.fault();
  return entry;
}

WireFault wire::check_name(std::string_view name) {
  if (is_utf8(name)) return {};
  return {"a name that is not UTF-8", reinterpret_cast<const std::byte*>(name.data())};
}

Inspection inspect(std::span<const std::byte> record) {
  size_t feature_count = 0;
  bool has_lists = false;
  WireReader reader(record);
  while (reader.next()) {
    const bool is_features = reader.is(1, WireType::kBytes);
    const bool is_lists = reader.is(2, WireType::kBytes);
    if (!is_features && !is_lists) {
      const bool first = feature_count == 0 && !has_lists;
      if (first || reader.number() <= 2) return {{}, {"a field of no Example", reader.begin()}};
      continue;
    }
    const Content content =
        is_features ? check_features(reader.bytes()) : check_feature_lists(reader.bytes());
    if (content.fault) return {{}, content.fault};
    feature_count += content.count;
    has_lists = has_lists || is_lists;
  }
  if (reader.fault()) return {{}, reader.fault()};
  if (feature_count == 0) return {{}, {"no feature", record.data() + record.size()}};
  return {has_lists ? MessageKind::kSequenceExample : MessageKind::kExample, {}};
}

}  // namespace ffrfs
