// What went wrong with an object that is far away: a class of ffrfs/errors.py, and one line.
//
// Not here: who decides what it is (ffrfs/remote, in the fetcher).

#pragma once

#include <string>
#include <string_view>

#include "io/error.h"

namespace ffrfs::remote {

class RemoteError final : public StorageError {
 public:
  // `kind`: what is no class of remote errors counts as their base. `reason` is without the URL.
  // As an answer to a read it is EIO, whatever it is; `at_opening` says more.
  RemoteError(std::string_view kind, const std::string& url, const std::string& reason,
              bool at_opening = false);

  [[nodiscard]] const char* kind() const override { return kind_; }
  // Later the same may succeed.
  [[nodiscard]] bool is_timeout() const;

 private:
  const char* kind_;
};

[[nodiscard]] RemoteError timeout_error(const std::string& url, double seconds);

// Whether a text names an object: s3:// gs:// az:// http:// https:// file://
[[nodiscard]] bool is_url(std::string_view text);

// The URL without user, password and query, which may be secrets.
[[nodiscard]] std::string shown_url(std::string_view url);

}  // namespace ffrfs::remote
