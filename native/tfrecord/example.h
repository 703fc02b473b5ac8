// Reads tf.train.Example and tf.train.SequenceExample in place: names and values are views of the
// record's bytes, and nothing is allocated.
//
// The messages (tensorflow/core/example/{example,feature}.proto), with their field numbers:
//   Example          features=1: Features
//   SequenceExample  context=1: Features, feature_lists=2: FeatureLists
//   Features         feature=1: map<string, Feature>
//   FeatureLists     feature_list=1: map<string, FeatureList>
//   FeatureList      feature=1: repeated Feature
//   Feature          oneof kind: bytes_list=1, float_list=2, int64_list=3
//   BytesList, FloatList, Int64List   value=1: repeated bytes, float, int64
//
// Follows protobuf: unknown fields are skipped, the last of a feature's kinds counts, repeated
// occurrences of a message are merged, lists may be packed or not. One thing is refused that
// protobuf merges and that no writer makes: a map entry with several values.
//
// Not here: whole batches into arrays (batch_parser.h), writing (ffrfs/tfrecord).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "io/little_endian.h"
#include "tfrecord/wire.h"

namespace ffrfs {

enum class FeatureKind : uint8_t { kNone = 0, kBytes = 1, kFloat = 2, kInt64 = 3 };

// Returns "bytes_list" and so on, as in the messages; "no list" for kNone.
[[nodiscard]] const char* to_text(FeatureKind kind);

using BytesValue = std::span<const std::byte>;  // of a record, or of a default

// Calls `function` with a value of the C++ type of the kind.
template <typename Function> auto by_kind(FeatureKind kind, Function function) {
  if (kind == FeatureKind::kInt64) return function(int64_t{});
  if (kind == FeatureKind::kFloat) return function(float{});
  return function(BytesValue{});
}

// Calls `visit` with each value of one of the three list messages, in order. T is BytesValue, float
// or int64_t.
template <typename T, typename Visit>
[[nodiscard]] WireFault for_each_value(std::span<const std::byte> list, const Visit& visit);

// All functions except check() assume sound bytes, as verified by check() or inspect(); if bytes
// are damaged, they return the values before the damage.
struct Feature {
  std::span<const std::byte> message;

  // The kind that counts, and its lists.
  struct Lists {
    FeatureKind kind = FeatureKind::kNone;
    bool is_one = false;  // the usual case: `bytes` is the only list; else several fields
    std::span<const std::byte> bytes;
    WireFault fault;

    // Visits each value if the values are of type T; otherwise none.
    template <typename T, typename Visit>
    [[nodiscard]] WireFault for_each(const Visit& visit) const;
  };
  [[nodiscard]] Lists lists() const {
    std::span<const std::byte> list;
    const uint32_t number = sole_field(message, list);
    if (number < 1 || number > 3) return search_lists();
    return {static_cast<FeatureKind>(number), true, list, {}};
  }

  [[nodiscard]] FeatureKind kind() const { return lists().kind; }
  [[nodiscard]] uint64_t value_count() const;
  // Checks the whole feature, to the last value.
  [[nodiscard]] WireFault check() const;

 private:
  [[nodiscard]] Lists search_lists() const;
};

struct FeatureList {
  std::span<const std::byte> message;

  // Calls visit(Feature) for each step.
  template <typename Visit> WireFault for_each_step(const Visit& visit) const;
};

// Calls visit(std::string_view name, Feature) for every feature of an Example, or of the context of
// a SequenceExample, in the order of the bytes. If a name occurs again, the last one counts.
// Returns the fault of the message, if it has one; the features are not checked (Feature::check).
template <typename Visit>
WireFault for_each_feature(std::span<const std::byte> example, const Visit& visit);

// The same for every feature list of a SequenceExample: visit(std::string_view, FeatureList).
template <typename Visit>
WireFault for_each_feature_list(std::span<const std::byte> sequence, const Visit& visit);

enum class MessageKind : uint8_t { kNone, kExample, kSequenceExample };

// The kind of a record, as its bytes show it. An Example is sound to its last value, has at least
// one feature, and no fields of other messages except unknown ones after its own; so text or an
// image is not one. A SequenceExample without feature lists cannot be told from an Example, and
// counts as one.
struct Inspection {
  MessageKind kind = MessageKind::kNone;
  WireFault fault;  // for kNone: why and where
};
[[nodiscard]] Inspection inspect(std::span<const std::byte> record);

// ---------------------------------------------------------------------------------------

namespace wire {

[[nodiscard]] inline std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Calls visit(span), which returns a fault, for each message in field `number`.
template <typename Visit>
[[nodiscard]] WireFault for_each_message(std::span<const std::byte> message, uint32_t number,
                                         const Visit& visit) {
  WireReader reader(message);
  while (reader.next()) {
    if (!reader.is(number, WireType::kBytes)) continue;
    if (const WireFault fault = visit(reader.bytes())) return fault;
  }
  return reader.fault();
}

// The key and value of a map's entry; the key is not validated.
struct Entry {
  std::string_view name;
  std::span<const std::byte> value;
  WireFault fault;
};
[[nodiscard]] Entry search_entry(std::span<const std::byte> message);
[[nodiscard]] inline Entry read_entry(std::span<const std::byte> message) {
  WireReader reader(message);
  if (!reader.next() || !reader.is(1, WireType::kBytes)) return search_entry(message);
  std::span<const std::byte> value;
  if (sole_field(reader.rest(), value) != 2) return search_entry(message);
  return {text(reader.bytes()), value, {}};
}
[[nodiscard]] WireFault check_name(std::string_view name);  // must be UTF-8

// Calls visit(name, span) for each entry of the map in field 1.
template <typename Visit>
[[nodiscard]] WireFault for_each_entry(std::span<const std::byte> message, const Visit& visit) {
  return for_each_message(message, 1, [&](std::span<const std::byte> bytes) {
    Entry entry = read_entry(bytes);
    if (!entry.fault) entry.fault = check_name(entry.name);
    if (!entry.fault) visit(entry.name, entry.value);
    return entry.fault;
  });
}

}  // namespace wire

template <typename T> inline constexpr FeatureKind kKindOf = FeatureKind::kBytes;
template <> inline constexpr FeatureKind kKindOf<float> = FeatureKind::kFloat;
template <> inline constexpr FeatureKind kKindOf<int64_t> = FeatureKind::kInt64;

namespace wire {

template <typename Visit>
[[nodiscard]] WireFault for_each_packed_int64(std::span<const std::byte> packed,
                                              const Visit& visit) {
  const std::byte* next = packed.data();
  const std::byte* const end = next + packed.size();
  while (next != end) {
    const std::byte* const begin = next;
    uint64_t value = 0;
    if (const char* reason = read_varint(next, end, value)) return {reason, begin};
    visit(static_cast<int64_t>(value));
  }
  return {};
}

template <typename Visit>
[[nodiscard]] WireFault for_each_packed_float(std::span<const std::byte> packed,
                                              const Visit& visit) {
  if (packed.size() % sizeof(float) != 0) {
    return {"packed floats that end within a float", packed.data()};
  }
  for (size_t at = 0; at < packed.size(); at += sizeof(float)) visit(load_le<float>(packed, at));
  return {};
}

// Visits a length-delimited field of a list: one bytes value, or packed numbers.
template <typename T, typename Visit>
[[nodiscard]] WireFault for_each_delimited(std::span<const std::byte> bytes, const Visit& visit) {
  if constexpr (std::is_same_v<T, float>) {
    return for_each_packed_float(bytes, visit);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return for_each_packed_int64(bytes, visit);
  } else {
    visit(bytes);
    return {};
  }
}

}  // namespace wire

template <typename T, typename Visit>
WireFault for_each_value(std::span<const std::byte> list, const Visit& visit) {
  if (std::span<const std::byte> bytes; sole_field(list, bytes) == 1) {
    return wire::for_each_delimited<T>(bytes, visit);
  }
  WireReader reader(list);
  while (reader.next()) {
    if (reader.number() != 1) continue;
    WireFault fault;
    if (reader.type() == WireType::kBytes) {
      fault = wire::for_each_delimited<T>(reader.bytes(), visit);
    } else if constexpr (std::is_same_v<T, float>) {
      if (reader.type() == WireType::kFixed32) visit(load_le<float>(reader.bytes()));
    } else if constexpr (std::is_same_v<T, int64_t>) {
      if (reader.type() == WireType::kVarint) visit(static_cast<int64_t>(reader.value()));
    }
    if (fault) return fault;
  }
  return reader.fault();
}

template <typename T, typename Visit> WireFault Feature::Lists::for_each(const Visit& visit) const {
  if (fault || kind != kKindOf<T>) return fault;
  if (is_one) return for_each_value<T>(bytes, visit);
  return wire::for_each_message(
      bytes, static_cast<uint32_t>(kind),
      [&](std::span<const std::byte> list) { return for_each_value<T>(list, visit); });
}

template <typename Visit> WireFault FeatureList::for_each_step(const Visit& visit) const {
  return wire::for_each_message(message, 1, [&](std::span<const std::byte> bytes) {
    visit(Feature{bytes});
    return WireFault{};
  });
}

template <typename Visit>
WireFault for_each_feature(std::span<const std::byte> example, const Visit& visit) {
  const auto visit_value = [&](std::string_view name, std::span<const std::byte> value) {
    visit(name, Feature{value});
  };
  return wire::for_each_message(example, 1, [&](std::span<const std::byte> features) {
    return wire::for_each_entry(features, visit_value);
  });
}

template <typename Visit>
WireFault for_each_feature_list(std::span<const std::byte> sequence, const Visit& visit) {
  const auto visit_value = [&](std::string_view name, std::span<const std::byte> value) {
    visit(name, FeatureList{value});
  };
  return wire::for_each_message(sequence, 2, [&](std::span<const std::byte> lists) {
    return wire::for_each_entry(lists, visit_value);
  });
}

}  // namespace ffrfs
