#include "pickle/pickle_bytes.h"

#include <algorithm>
#include <string>

#include "pickle/pickle_fault.h"

namespace ffrfs {

std::string_view PickleBytes::take(uint64_t size) {
  if (size > kArgumentLimit) {
    throw PickleFault("a string of " + std::to_string(size) + " bytes, longer than any name");
  }
  if (size <= piece_.size() - position_) {
    const auto* begin = reinterpret_cast<const char*>(piece_.data()) + position_;
    position_ += size;
    return {begin, size};
  }
  for (size_t i = 0; i < size; ++i) argument_[i] = static_cast<char>(byte());
  return {argument_.data(), size};
}

std::string_view PickleBytes::line() {
  const std::string_view rest(reinterpret_cast<const char*>(piece_.data()) + position_,
                              std::min(piece_.size() - position_, kArgumentLimit + 1));
  if (const size_t size = rest.find('\n'); size != std::string_view::npos) {
    position_ += size + 1;
    return rest.substr(0, size);
  }
  for (size_t size = 0;; ++size) {
    const char next = static_cast<char>(byte());
    if (next == '\n') return {argument_.data(), size};
    if (size == kArgumentLimit) throw PickleFault("a line that is longer than any name");
    argument_[size] = next;
  }
}

void PickleBytes::drain() {
  while (!source_.next().empty()) {
  }
}

void PickleBytes::next_piece() {
  piece_offset_ += piece_.size();
  position_ = 0;
  piece_ = source_.next();
  if (piece_.empty()) throw PickleFault("truncated: the pickle ends without STOP");
}

}  // namespace ffrfs
