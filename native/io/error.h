// The errors of the core: few kinds, each with a one-line text that names the
// file (and the record, where there is one), what is wrong and, if the reader
// can do something about it, what. Where, and what is wrong, are fields too.
//
// Not here: their translation to Python (native/python) and to errno (engines).

#pragma once

#include <cerrno>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace ffrfs {

class Error : public std::runtime_error {
 public:
  // Of no file, or of several.
  explicit Error(const std::string& reason) : Error("", reason) {}
  // what() is "PATH: REASON". `record`, of that file, is in the reason too.
  Error(std::string path, std::string reason, std::optional<uint64_t> record = std::nullopt)
      : std::runtime_error(path.empty() ? reason : path + ": " + reason),
        path_(std::move(path)),
        reason_(std::move(reason)),
        record_(record) {}

  // Its class in ffrfs/errors.py, or one of Python's own.
  [[nodiscard]] virtual const char* kind() const = 0;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }  // without the path
  [[nodiscard]] std::optional<uint64_t> record() const { return record_; }
  // For a text that names `path` already.
  [[nodiscard]] std::string within(const std::string& path) const {
    return path == path_ ? reason_ : what();
  }

 private:
  std::string path_;
  std::string reason_;
  std::optional<uint64_t> record_;
};

// The bytes do not follow the format: bad header, bad index.
struct FormatError : Error {
  using Error::Error;
  [[nodiscard]] const char* kind() const override { return "FormatError"; }
};

// The file ends before what it begins: cut off, or still being written.
struct TruncatedError : FormatError {
  using FormatError::FormatError;
  [[nodiscard]] const char* kind() const override { return "TruncatedError"; }
};

// The index is a pickle that would run code, or could be made to.
struct UnsafeIndexError : FormatError {
  using FormatError::FormatError;
  [[nodiscard]] const char* kind() const override { return "UnsafeIndexError"; }
};

// The index is of what the pack was before: no damage.
struct StaleIndexError : FormatError {
  using FormatError::FormatError;
};

// The bytes are not the ones that were written.
struct ChecksumError : Error {
  using Error::Error;
  [[nodiscard]] const char* kind() const override { return "ChecksumError"; }
};

// A file that is held as a whole to be made has more bytes than may be held.
struct TooLargeError : Error {
  using Error::Error;
  [[nodiscard]] const char* kind() const override { return "TooLargeError"; }
};

// What shall be packed is not, or no longer, what can be.
struct PackError : Error {
  using Error::Error;
  [[nodiscard]] const char* kind() const override { return "PackError"; }
};

// The kernel refused: open, read, write.
class StorageError : public Error {
 public:
  StorageError(int error_number, std::string path, const std::string& action)
      : Error(std::move(path), action + ": " + std::generic_category().message(error_number)),
        code_(error_number) {}

  [[nodiscard]] const char* kind() const override { return "OSError"; }
  [[nodiscard]] int code() const { return code_; }  // errno
  // Of descriptors: the file that was to be opened is not to blame.
  [[nodiscard]] bool is_shortage() const { return code_ == EMFILE || code_ == ENFILE; }

 protected:
  struct Exactly {
    int error_number;
  };
  // The reason says all.
  StorageError(Exactly code, std::string path, std::string reason)
      : Error(std::move(path), std::move(reason)), code_(code.error_number) {}

 private:
  int code_;
};

// The caller asked for something that is not there: record number, inode.
struct RangeError : std::out_of_range {
  using std::out_of_range::out_of_range;
};

// Any exception by its parts, for those who make another of it: in Python, in another process.
struct ErrorFields {
  std::string kind;  // as Error::kind()
  std::string reason;
  std::string path = {};
  std::optional<uint64_t> record = std::nullopt;
  int code = 0;  // errno
};

[[nodiscard]] ErrorFields fields_of(const std::exception_ptr& error);

// The text where it stands behind that path: Error::within(), or what().
[[nodiscard]] std::string text_within(const std::exception& error, const std::string& path);

}  // namespace ffrfs
