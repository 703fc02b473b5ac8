// Recognises a file's type from its bytes, for the extension of a name that has none.

#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace ffrfs {

inline constexpr size_t kExtensionSizeMax = 8;

// Returns ".jpg", ".png", ".txt" …; "" if unknown or empty. Reads the first bytes, and the others
// only as long as they are text. The result is a literal.
[[nodiscard]] std::string_view extension_of(std::span<const std::byte> content);

}  // namespace ffrfs
