// The errors of the core: few kinds, each with a one-line text that names the
// file (and the record, where there is one), what is wrong and, if the reader
// can do something about it, what.
//
// Not here: their translation to Python (native/python) and to errno (engines).

#pragma once

#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace ffrfs {

// The bytes do not follow the format: bad header, bad index.
struct FormatError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The file ends before what it begins: cut off, or still being written.
struct TruncatedError : FormatError {
  using FormatError::FormatError;
};

// The index is a pickle that would run code, or could be made to.
struct UnsafeIndexError : FormatError {
  using FormatError::FormatError;
};

// The index is of what the pack was before: no damage.
struct StaleIndexError : FormatError {
  using FormatError::FormatError;
};

// The bytes are not the ones that were written.
struct ChecksumError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The kernel refused: open, read, write.
class StorageError : public std::runtime_error {
 public:
  StorageError(int error_number, const std::string& path, const std::string& action)
      : StorageError(error_number, path,
                     action + ": " + std::generic_category().message(error_number), 0) {}

  [[nodiscard]] int code() const { return code_; }  // errno
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }  // without the path

 private:
  StorageError(int error_number, const std::string& path, std::string reason, int)
      : std::runtime_error(path + ": " + reason),
        code_(error_number),
        path_(path),
        reason_(std::move(reason)) {}

  int code_;
  std::string path_;
  std::string reason_;
};

// The caller asked for something that is not there: record number, inode.
struct RangeError : std::out_of_range {
  using std::out_of_range::out_of_range;
};

}  // namespace ffrfs
