// The errors of the core: a few kinds, each with a one-line text that names the file (and the
// record, if there is one), says what is wrong and, if there is a remedy, names it. The path, the
// record and the reason are fields, too.
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
  // An error of no file, or of several.
  explicit Error(const std::string& reason) : Error("", reason) {}
  // what() is "PATH: REASON". `record` is a record of that file; the reason names it too.
  Error(std::string path, std::string reason, std::optional<uint64_t> record = std::nullopt)
      : std::runtime_error(path.empty() ? reason : path + ": " + reason),
        path_(std::move(path)),
        reason_(std::move(reason)),
        record_(record) {}

  // Returns the name of the error's class in ffrfs/errors.py, or of a built-in exception.
  [[nodiscard]] virtual const char* kind() const = 0;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }  // without the path
  [[nodiscard]] std::optional<uint64_t> record() const { return record_; }
  // Returns the text for a message that names `path` already.
  [[nodiscard]] std::string within(const std::string& path) const {
    return path == path_ ? reason_ : what();
  }

 private:
  std::string path_;
  std::string reason_;
  std::optional<uint64_t> record_;
};

// The bytes do not follow the format: a bad header, a bad index.
struct FormatError : Error {
  using Error::Error;
  [[nodiscard]] const char* kind() const override { return "FormatError"; }
};

// The file is shorter than its header says: truncated, or still being written.
struct TruncatedError : FormatError {
  using FormatError::FormatError;
  [[nodiscard]] const char* kind() const override { return "TruncatedError"; }
};

// The index is a pickle that would run code, or could be made to.
struct UnsafeIndexError : FormatError {
  using FormatError::FormatError;
  [[nodiscard]] const char* kind() const override { return "UnsafeIndexError"; }
};

// The index belongs to an earlier version of the pack; nothing is damaged.
struct StaleIndexError : FormatError {
  using FormatError::FormatError;
};

// The bytes are not the bytes that were written.
struct ChecksumError : Error {
  using Error::Error;
  [[nodiscard]] const char* kind() const override { return "ChecksumError"; }
};

// A file that can only be made in memory as a whole is larger than the limit.
struct TooLargeError : Error {
  using Error::Error;
  [[nodiscard]] const char* kind() const override { return "TooLargeError"; }
};

// A file or directory cannot be packed, or changed while it was packed.
struct PackError : Error {
  using Error::Error;
  [[nodiscard]] const char* kind() const override { return "PackError"; }
};

// A system call failed: open, read, write.
class StorageError : public Error {
 public:
  StorageError(int error_number, std::string path, const std::string& action)
      : Error(std::move(path), action + ": " + std::generic_category().message(error_number)),
        code_(error_number) {}

  [[nodiscard]] const char* kind() const override { return "OSError"; }
  [[nodiscard]] int code() const { return code_; }  // errno

 protected:
  struct Exactly {
    int error_number;
  };
  // For a reason that is complete already, so that errno's text is not added.
  StorageError(Exactly code, std::string path, std::string reason)
      : Error(std::move(path), std::move(reason)), code_(code.error_number) {}

 private:
  int code_;
};

// A file cannot be read, because the system refuses a thread.
struct NoThreadError : StorageError {
  explicit NoThreadError(std::string path);
};

// The caller asked for a record number or an inode that does not exist.
struct RangeError : std::out_of_range {
  using std::out_of_range::out_of_range;
};

// The parts of any exception, for code that rebuilds it in Python or in another process.
struct ErrorFields {
  std::string kind;  // as Error::kind()
  std::string reason;
  std::string path = {};
  std::optional<uint64_t> record = std::nullopt;
  int code = 0;  // errno
};

[[nodiscard]] ErrorFields fields_of(const std::exception_ptr& error);

// Returns whether descriptors, memory or threads are lacking: no file is to blame.
[[nodiscard]] bool is_shortage(const std::exception& error);

// Returns the error's text for a message that names `path` already: Error::within(), or what().
[[nodiscard]] std::string text_within(const std::exception& error, const std::string& path);

}  // namespace ffrfs
