#include "tree/name.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace ffrfs {
namespace {

constexpr const char* kTooLong = "a name of more than 255 bytes";
constexpr const char* kNotUtf8 = "a name that is not UTF-8";
constexpr const char* kSurrogate = "a name with a surrogate that encodes no byte";
constexpr const char* kBadEscape = "a name with a bad escape";

bool is_ascii(std::string_view text) {
  uint64_t high = 0;
  while (text.size() >= sizeof high) {
    uint64_t word = 0;
    std::memcpy(&word, text.data(), sizeof word);
    high |= word;
    text.remove_prefix(sizeof word);
  }
  for (const char c : text) high |= static_cast<unsigned char>(c) & 0x80U;
  return (high & 0x8080808080808080U) == 0;
}

// For the first byte of a sequence: how many bytes it has, the code point's bits in this byte, and
// the least code point that needs as many. 0 bytes: no sequence begins with this byte.
struct Lead {
  size_t size;
  char32_t bits;
  char32_t least;
};

Lead lead_of(unsigned char lead) {
  if (lead < 0x80) return {1, lead, 0};
  if (lead >= 0xC0 && lead < 0xE0) return {2, lead & 0x1FU, 0x80};
  if (lead >= 0xE0 && lead < 0xF0) return {3, lead & 0x0FU, 0x800};
  if (lead >= 0xF0 && lead < 0xF8) return {4, lead & 0x07U, 0x10000};
  return {0, 0, 0};
}

}  // namespace

const char* NameDecoder::utf8(std::string_view pickled) {
  if (is_ascii(pickled)) {
    if (pickled.size() > kNameSizeLimit) return kTooLong;
    size_ = pickled.copy(bytes_.data(), bytes_.size());
    return nullptr;
  }
  size_ = 0;
  while (!pickled.empty()) {
    const Lead lead = lead_of(static_cast<unsigned char>(pickled[0]));
    if (lead.size == 0 || lead.size > pickled.size()) return kNotUtf8;
    char32_t code_point = lead.bits;
    for (const char c : pickled.substr(1, lead.size - 1)) {
      const auto byte = static_cast<unsigned char>(c);
      if ((byte & 0xC0U) != 0x80) return kNotUtf8;
      code_point = code_point << 6 | (byte & 0x3FU);
    }
    if (code_point < lead.least) return kNotUtf8;
    if (const char* fault = append(code_point)) return fault;
    pickled.remove_prefix(lead.size);
  }
  return nullptr;
}

const char* NameDecoder::raw_unicode_escape(std::string_view pickled) {
  size_ = 0;
  while (!pickled.empty()) {
    char32_t code_point = static_cast<unsigned char>(pickled[0]);  // Latin-1
    size_t taken = 1;
    if (pickled[0] == '\\') {  // the pickler escapes a backslash itself as \u005c
      const char kind = pickled.size() > 1 ? pickled[1] : '\0';
      const size_t digits = kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
      taken = 2 + digits;
      if (digits == 0 || taken > pickled.size()) return kBadEscape;
      uint32_t value = 0;
      const char* end = pickled.data() + taken;
      const auto parsed = std::from_chars(pickled.data() + 2, end, value, 16);
      if (parsed.ec != std::errc{} || parsed.ptr != end) return kBadEscape;
      code_point = value;
    }
    if (const char* fault = append(code_point)) return fault;
    pickled.remove_prefix(taken);
  }
  return nullptr;
}

const char* NameDecoder::append(char32_t code_point) {
  bool fits = true;
  const auto tail = [&](int shift) {
    fits = fits && append_byte(0x80U | (code_point >> shift & 0x3FU));
  };
  if (code_point < 0x80) {
    fits = append_byte(code_point);
  } else if (code_point < 0x800) {
    fits = append_byte(0xC0U | code_point >> 6);
    tail(0);
  } else if (code_point >= 0xDC80 && code_point <= 0xDCFF) {
    fits = append_byte(code_point & 0xFFU);
  } else if (code_point >= 0xD800 && code_point <= 0xDFFF) {
    return kSurrogate;
  } else if (code_point < 0x10000) {
    fits = append_byte(0xE0U | code_point >> 12);
    tail(6);
    tail(0);
  } else if (code_point <= 0x10FFFF) {
    fits = append_byte(0xF0U | code_point >> 18);
    tail(12);
    tail(6);
    tail(0);
  } else {
    return kNotUtf8;
  }
  return fits ? nullptr : kTooLong;
}

bool NameDecoder::append_byte(unsigned byte) {
  if (size_ == bytes_.size()) return false;
  bytes_[size_++] = static_cast<char>(byte);
  return true;
}

const char* name_fault(std::string_view name) {
  if (name.empty()) return "an empty name";
  if (name == "." || name == "..") return "a name that every directory has already";
  if (name.find('/') != std::string_view::npos) return "a name that contains '/'";
  if (name.find('\0') != std::string_view::npos) return "a name that contains NUL";
  return nullptr;
}

std::string printable(std::string_view text) {
  constexpr size_t kEnd = 60;  // shown at each end
  if (text.size() > 2 * kEnd) {
    return printable(text.substr(0, kEnd)) + "..." + printable(text.substr(text.size() - kEnd));
  }
  std::string shown;
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '\\') {
      shown += c;
    } else {
      char escape[5];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(c));
      shown += escape;
    }
  }
  return shown;
}

std::string in_quotes(std::string_view text) {
  std::string shown = "\"";
  shown += printable(text);
  shown += '"';
  return shown;
}

}  // namespace ffrfs
