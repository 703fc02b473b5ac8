#include "tfrecord/wire.h"

#include <array>

namespace ffrfs {

// Groups are obsolete (proto2): no Example has one, but an unknown field may be one.
bool WireReader::skip_group() {
  constexpr size_t kDepthLimit = 100;
  const uint32_t outermost = number_;
  const std::byte* const begin = begin_;
  std::array<uint32_t, kDepthLimit> open;
  size_t depth = 0;
  open[depth++] = outermost;
  while (depth > 0) {
    if (next_ == end_) return bad("a group without an end");
    begin_ = next_;
    if (!read_tag()) return false;
    switch (type_) {
      case WireType::kVarint:
        if (!good(read_varint(next_, end_, value_))) return false;
        break;
      case WireType::kFixed64:
        if (!take(8)) return false;
        break;
      case WireType::kFixed32:
        if (!take(4)) return false;
        break;
      case WireType::kBytes:
        if (!read_size() || !take(value_)) return false;
        break;
      case WireType::kGroup:
        if (depth == kDepthLimit) return bad("groups that nest too deep");
        open[depth++] = number_;
        break;
      case WireType::kGroupEnd:
        if (number_ != open[--depth]) return bad("the end of another group");
        break;
      default: return bad("a field of no known wire type");
    }
  }
  begin_ = begin;
  number_ = outermost;
  type_ = WireType::kGroup;
  return true;
}

}  // namespace ffrfs
