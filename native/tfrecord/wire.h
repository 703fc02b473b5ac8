// Protocol buffers on the wire: the fields of one message, one after the other, as views of its
// bytes. Nothing is allocated, nothing is thrown, and no byte outside the message is accessed; if
// the bytes are bad, reading ends and fault() says why.
//
// The format: https://protobuf.dev/programming-guides/encoding. As strict as protobuf's own
// parsers: a tag and a length take at most 5 bytes, a varint 10 (bits above the 64th are dropped),
// groups nest at most 100 deep, field number 0 is invalid.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ffrfs {

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroup = 3,
  kGroupEnd = 4,
  kFixed32 = 5,
};

// The fault of a message, as a short phrase, and its place.
struct WireFault {
  const char* reason = nullptr;      // nullptr: no fault
  const std::byte* place = nullptr;  // in the bytes that were read

  explicit operator bool() const { return reason != nullptr; }
  [[nodiscard]] size_t offset_in(std::span<const std::byte> record) const {
    return static_cast<size_t>(place - record.data());
  }
};

// Reads one varint of at most `Limit` bytes, and moves `next` behind it. Returns nullptr, or the
// fault.
template <int Limit = 10>
[[nodiscard]] inline const char* read_varint(const std::byte*& next, const std::byte* end,
                                             uint64_t& value) {
  if (next != end && static_cast<uint8_t>(*next) < 0x80) {
    value = static_cast<uint8_t>(*next++);
    return nullptr;
  }
  uint64_t sum = 0;
  for (int i = 0; i < Limit; ++i) {
    if (next == end) return "a number that is cut off";
    const auto byte = static_cast<uint64_t>(*next++);
    sum |= (byte & 0x7F) << (7 * i);
    if (byte < 0x80) {
      value = sum;
      return nullptr;
    }
  }
  return "a number of too many bytes";
}

class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> message)
      : next_(message.data()), end_(message.data() + message.size()) {}

  // Moves to the next field. Returns false at the end of the message, and if it is bad.
  [[nodiscard]] bool next() {
    if (next_ == end_) return false;
    begin_ = next_;
    if (!read_tag()) return false;
    switch (type_) {
      case WireType::kVarint: return good(read_varint(next_, end_, value_));
      case WireType::kFixed64: return take(8);
      case WireType::kFixed32: return take(4);
      case WireType::kBytes: return read_size() && take(value_);
      case WireType::kGroup: return skip_group();
      case WireType::kGroupEnd: return bad("the end of a group that has not begun");
    }
    return bad("a field of no known wire type");
  }

  // Properties of the field that next() has reached:
  [[nodiscard]] uint32_t number() const { return number_; }
  [[nodiscard]] WireType type() const { return type_; }
  [[nodiscard]] bool is(uint32_t number, WireType type) const {
    return number_ == number && type_ == type;
  }
  [[nodiscard]] uint64_t value() const { return value_; }  // kVarint
  // kBytes: without the length; kFixed64 and kFixed32: 8 and 4 bytes.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  // Returns where the field's tag begins.
  [[nodiscard]] const std::byte* begin() const { return begin_; }

  // Returns the bytes that have not been read yet.
  [[nodiscard]] std::span<const std::byte> rest() const { return {next_, end_}; }
  [[nodiscard]] const WireFault& fault() const { return fault_; }

 private:
  bool bad(const char* reason) {
    fault_ = {reason, begin_};
    next_ = end_;
    return false;
  }
  bool good(const char* reason) { return reason == nullptr || bad(reason); }

  bool read_tag() {
    uint64_t tag = 0;
    if (!good(read_varint<5>(next_, end_, tag))) return false;
    if (tag > std::numeric_limits<uint32_t>::max()) {
      return bad("a field number that is too large");
    }
    number_ = static_cast<uint32_t>(tag >> 3);
    type_ = static_cast<WireType>(tag & 7);
    return number_ != 0 || bad("field number 0");
  }

  bool read_size() { return good(read_varint<5>(next_, end_, value_)); }

  bool take(uint64_t size) {
    if (size > static_cast<uint64_t>(end_ - next_)) {
      return bad("a field that ends beyond its message");
    }
    bytes_ = {next_, static_cast<size_t>(size)};
    next_ += size;
    return true;
  }

  bool skip_group();

  const std::byte* next_;
  const std::byte* end_;
  const std::byte* begin_ = nullptr;
  uint32_t number_ = 0;
  WireType type_ = WireType::kVarint;
  uint64_t value_ = 0;
  std::span<const std::byte> bytes_;
  WireFault fault_;
};

// For a message that is one length-delimited field and nothing else, as most of those in an Example
// are: returns the field's number, and its content. Returns 0 for any other message, good or bad,
// which needs a WireReader. Much faster than a WireReader.
[[nodiscard]] inline uint32_t sole_field(std::span<const std::byte> message,
                                         std::span<const std::byte>& bytes) {
  const auto byte = [message](size_t i) { return static_cast<uint8_t>(message[i]); };
  if (message.size() < 2 || (byte(0) & 0x87) != static_cast<uint8_t>(WireType::kBytes)) return 0;
  size_t header = 2;
  size_t size = byte(1);
  if (size >= 0x80) {  // two bytes of length; a longer field takes its time anyway
    if (message.size() < 3 || byte(2) >= 0x80) return 0;
    header = 3;
    size = (size & 0x7F) | size_t{byte(2)} << 7;
  }
  if (message.size() - header != size) return 0;
  bytes = message.subspan(header);
  return byte(0) >> 3;
}

}  // namespace ffrfs
