// Names of files and folders: how a pickle spells them, which are fit to be mounted,
// and how they stand in a message.
//
// Python's str holds a file name that is not UTF-8 by one lone surrogate, U+DC80 to
// U+DCFF, for each byte that does not decode (PEP 383); pickles carry these as they
// are. Here they become the byte again, as os.fsencode() does it.

#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace ffrfs {

inline constexpr size_t kNameSizeLimit = 255;  // Linux NAME_MAX

// Turns one pickled str after the other into bytes, without allocating.
class NameDecoder {
 public:
  // What a str of a fitting name takes at most: six characters a byte, as in "\udc80".
  static constexpr size_t kPickledSizeLimit = 6 * kNameSizeLimit;

  // Both return nullptr, and then name() holds until the next call; or what is wrong.
  [[nodiscard]] const char* utf8(std::string_view pickled);  // lone surrogates allowed
  [[nodiscard]] const char* raw_unicode_escape(std::string_view pickled);

  [[nodiscard]] std::string_view name() const { return {bytes_.data(), size_}; }

 private:
  [[nodiscard]] const char* append(char32_t code_point);
  [[nodiscard]] bool append_byte(unsigned byte);

  std::array<char, kNameSizeLimit> bytes_;
  size_t size_ = 0;
};

// Why the kernel could not show this name, or nullptr: empty, ".", "..", '/', NUL.
[[nodiscard]] const char* name_fault(std::string_view name);

// `text` for a message: printable ASCII on one line, the rest as \xNN; shortened in its
// middle if it is long.
[[nodiscard]] std::string printable(std::string_view text);

// The same between quotation marks.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace ffrfs
