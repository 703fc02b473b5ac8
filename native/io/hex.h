// Checksums as messages show them.

#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace ffrfs {

[[nodiscard]] inline std::string hex(uint32_t value) {
  char text[11];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

}  // namespace ffrfs
