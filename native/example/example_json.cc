#include "example/example_json.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <new>

namespace ffrfs {
namespace {

constexpr size_t kDigestSize = 32;  // SHA-256
constexpr size_t kDigestTextSize = 2 * kDigestSize;

// The text of one float.
class FloatText {
 public:
  // "-1.17549435e-38" has 15 characters; a whole number with ".0" has up to 17.
  static constexpr size_t kSizeMax = 17;

  explicit FloatText(float value) {
    if (std::isnan(value)) {
      set("\"NaN\"");
    } else if (std::isinf(value)) {
      set(value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    } else {
      set_number(value);
    }
  }

  [[nodiscard]] std::string_view view() const { return {text_.data(), size_}; }

 private:
  void set(std::string_view text) { size_ = text.copy(text_.data(), kSizeMax); }

  void set_number(float value) {
    constexpr std::string_view kFraction = ".0";
    char* end = std::to_chars(text_.data(), text_.data() + kSizeMax - kFraction.size(), value).ptr;
    // Whole numbers stay floats for their reader, and -0 keeps its sign.
    const auto is_part = [](char c) { return c == '.' || c == 'e'; };
    if (std::none_of(text_.data(), end, is_part)) end = std::ranges::copy(kFraction, end).out;
    size_ = static_cast<size_t>(end - text_.data());
  }

  std::array<char, kSizeMax> text_;
  size_t size_ = 0;
};

size_t digit_count(uint64_t value) {
  static constexpr auto kPowers = [] {
    std::array<uint64_t, 20> powers{};
    uint64_t power = 1;
    for (uint64_t& one : powers) {
      one = power;
      power *= 10;
    }
    return powers;
  }();
  // 1233 / 4096 is log10(2): the number has that many digits, or one more.
  const auto bits = static_cast<size_t>(std::bit_width(value | 1));
  const size_t guess = bits * 1233 >> 12;
  return guess + (value >= kPowers[guess] || guess == 0 ? 1 : 0);
}

size_t int_size(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  return value < 0 ? 1 + digit_count(0 - bits) : digit_count(bits);
}

// Counts characters without writing them.
class Counter {
 public:
  void put(std::string_view text) { size_ += text.size(); }
  void put_int(int64_t value) { size_ += int_size(value); }
  void put_float_column(float) { size_ += FloatText::kSizeMax; }
  void put_digest(std::span<const std::byte>) { size_ += kDigestTextSize; }

  [[nodiscard]] uint64_t size() const { return size_; }

 private:
  uint64_t size_ = 0;
};

// Writes a part of the text, and counts the rest, which takes a fraction of the time.
class Text {
 public:
  explicit Text(FilePart part) : part_(part) {}

  void put(std::string_view text) { part_.put(std::as_bytes(std::span(text))); }
  void put_int(int64_t value) {
    if (!part_.wants(kIntSizeMax)) return part_.skip(int_size(value));
    std::array<char, kIntSizeMax> text;
    const char* end = std::to_chars(text.begin(), text.end(), value).ptr;
    put({text.data(), end});
  }
  void put_float_column(float value) {
    if (!part_.wants(FloatText::kSizeMax)) return part_.skip(FloatText::kSizeMax);
    constexpr std::string_view kSpaces = "                 ";
    static_assert(kSpaces.size() == FloatText::kSizeMax);
    const FloatText text(value);
    put(kSpaces.substr(text.view().size()));
    put(text.view());
  }
  void put_digest(std::span<const std::byte> bytes) {
    if (!part_.wants(kDigestTextSize)) return part_.skip(kDigestTextSize);
    std::array<unsigned char, kDigestSize> digest;
    const int is_made =
        EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
    if (is_made == 0) throw std::bad_alloc();  // fails only for lack of memory
    for (const unsigned char byte : digest) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      put(kDigits.substr(byte >> 4, 1));
      put(kDigits.substr(byte & 0xFU, 1));
    }
  }

  // Returns the size of the whole text.
  [[nodiscard]] uint64_t size() const { return part_.position(); }

 private:
  static constexpr size_t kIntSizeMax = 20;

  FilePart part_;
};

// Writes to an Out, which is a Counter or a Text.
template <typename Out> class Writer {
 public:
  explicit Writer(Out& out) : out_(out) {}

  void write(const ExampleContent& content) {
    const bool is_sequence = content.kind == MessageKind::kSequenceExample;
    out_.put(is_sequence ? "{\n  \"context\": {" : "{\n  \"features\": {");
    entries(content.features, [this](Feature feature) { write(feature); });
    if (is_sequence) {
      out_.put(",\n  \"feature_lists\": {");
      entries(content.feature_lists, [this](FeatureList list) { write(list); });
    }
    out_.put("\n}\n");
  }

 private:
  static constexpr uint64_t kShortList = 16;

  template <typename Named, typename WriteOne>
  void entries(const Named& named, WriteOne write_one) {
    std::string_view before = "\n    ";
    for (const auto& [name, message] : named) {
      out_.put(before);
      before = ",\n    ";
      string(name);
      out_.put(": ");
      write_one(message);
    }
    out_.put(named.empty() ? "}" : "\n  }");
  }

  void write(FeatureList list) {
    out_.put("[");
    std::string_view before;
    (void)list.for_each_step([&](Feature step) {
      out_.put(before);
      before = ", ";
      write(step);
    });
    out_.put("]");
  }

  void write(Feature feature) {
    const Feature::Lists lists = feature.lists();
    switch (lists.kind) {
      case FeatureKind::kBytes:
        return list<std::span<const std::byte>>(lists, [this](auto value) { bytes(value); });
      case FeatureKind::kFloat:
        if (is_long(lists)) {
          return list<float>(lists, [this](float value) { out_.put_float_column(value); });
        }
        return list<float>(lists, [this](float value) { out_.put(FloatText(value).view()); });
      case FeatureKind::kInt64:
        return list<int64_t>(lists, [this](int64_t value) { out_.put_int(value); });
      case FeatureKind::kNone: return out_.put("null");
    }
  }

  static bool is_long(const Feature::Lists& lists) {
    uint64_t count = 0;
    (void)lists.for_each<float>([&count](float) { ++count; });
    return count > kShortList;
  }

  template <typename T, typename WriteOne>
  void list(const Feature::Lists& lists, WriteOne write_one) {
    out_.put("{\"");
    out_.put(to_text(lists.kind));
    out_.put("\": [");
    std::string_view before;
    (void)lists.for_each<T>([&](T value) {
      out_.put(before);
      before = ", ";
      write_one(value);
    });
    out_.put("]}");
  }

  void bytes(std::span<const std::byte> value) {
    out_.put("{\"size\": ");
    out_.put_int(static_cast<int64_t>(value.size()));
    out_.put(", \"sha256\": \"");
    out_.put_digest(value);
    out_.put("\"}");
  }

  // Names are UTF-8 (checked by inspect()), and so is JSON: escapes only what must be escaped.
  void string(std::string_view text) {
    out_.put("\"");
    while (!text.empty()) {
      const auto is_special = [](char c) {
        return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
      };
      const auto special = std::ranges::find_if(text, is_special);
      const auto plain = static_cast<size_t>(special - text.begin());
      out_.put(text.substr(0, plain));
      text.remove_prefix(plain);
      if (text.empty()) break;
      escaped(text[0]);
      text.remove_prefix(1);
    }
    out_.put("\"");
  }

  void escaped(char c) {
    if (c == '"') return out_.put("\\\"");
    if (c == '\\') return out_.put("\\\\");
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    out_.put("\\u00");
    out_.put(kDigits.substr(byte >> 4, 1));
    out_.put(kDigits.substr(byte & 0xFU, 1));
  }

  Out& out_;
};

}  // namespace

uint64_t example_json_size(const ExampleContent& content) {
  Counter counter;
  Writer(counter).write(content);
  return counter.size();
}

uint64_t write_example_json(const ExampleContent& content, FilePart part) {
  Text text(part);
  Writer(text).write(content);
  return text.size();
}

}  // namespace ffrfs
