// What a file is, told from its bytes: for the extension of a name that has none.

#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace ffrfs {

inline constexpr size_t kExtensionSizeMax = 8;

// ".jpg", ".png", ".txt" …; "" when unknown or empty. Looks at the first bytes, and at
// all of them only while they are text. The text lasts as long as the program.
[[nodiscard]] std::string_view extension_of(std::span<const std::byte> content);

}  // namespace ffrfs
