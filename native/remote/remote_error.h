// An error of a remote object: a class of ffrfs/errors.py, and one line of text.
//
// Not here: how the class is chosen (ffrfs/remote, in the fetcher).

#pragma once

#include <string>
#include <string_view>

#include "io/error.h"

namespace ffrfs::remote {

class RemoteError final : public StorageError {
 public:
  // `kind`: an unknown class counts as RemoteError, their base. `reason` is without the URL. The
  // errno is that of the class `at_opening`, and EIO for any read.
  RemoteError(std::string_view kind, const std::string& url, const std::string& reason,
              bool at_opening = false);

  [[nodiscard]] const char* kind() const override { return kind_; }
  // Returns whether a later attempt may succeed.
  [[nodiscard]] bool is_timeout() const;

 private:
  const char* kind_;
};

[[nodiscard]] RemoteError timeout_error(const std::string& url, double seconds);

// Returns whether the text is a URL of s3:// gs:// az:// http:// https:// file://
[[nodiscard]] bool is_url(std::string_view text);

// Returns the URL without user, password and query, which may be secrets; a path as it is.
[[nodiscard]] std::string shown_url(std::string_view url);

}  // namespace ffrfs::remote
