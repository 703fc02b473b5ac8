// Names of files and directories: decoding them from a pickle, checking that they can be mounted,
// and quoting them in messages.
//
// In Python's str, a file name that is not UTF-8 has one lone surrogate, U+DC80 to U+DCFF, for each
// byte that does not decode (PEP 383), and pickles store these as they are. They are converted to
// bytes again here, as os.fsencode() does.

#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace ffrfs {

inline constexpr size_t kNameSizeLimit = 255;  // Linux NAME_MAX

// Decodes one pickled str after another into bytes, without allocating.
class NameDecoder {
 public:
  // The most that the str of a valid name takes: six characters a byte, as in "\udc80".
  static constexpr size_t kPickledSizeLimit = 6 * kNameSizeLimit;

  // Both return nullptr, and name() is valid until the next call; or the fault.
  [[nodiscard]] const char* utf8(std::string_view pickled);  // lone surrogates allowed
  [[nodiscard]] const char* raw_unicode_escape(std::string_view pickled);

  [[nodiscard]] std::string_view name() const { return {bytes_.data(), size_}; }

 private:
  [[nodiscard]] const char* append(char32_t code_point);
  [[nodiscard]] bool append_byte(unsigned byte);

  std::array<char, kNameSizeLimit> bytes_;
  size_t size_ = 0;
};

// Returns why the kernel cannot show this name, or nullptr: empty, ".", "..", '/', NUL.
[[nodiscard]] const char* name_fault(std::string_view name);

// `text` for a message: printable ASCII on one line, the rest as \xNN; shortened in its
// middle if it is long.
[[nodiscard]] std::string printable(std::string_view text);

// The same between quotation marks. (Not quoted(): with a std::string, std::quoted fits better.)
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace ffrfs
