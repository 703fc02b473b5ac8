#include "remote/remote_error.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>

namespace ffrfs::remote {
namespace {

struct Kind {
  const char* name;
  int code;  // errno, if opening fails
};
constexpr std::array<Kind, 6> kKinds{{{"RemoteError", EIO},
                                      {"ChangedAtOriginError", ESTALE},
                                      {"RemoteTimeoutError", ETIMEDOUT},
                                      {"RemoteDeniedError", EACCES},
                                      {"RemoteNotFoundError", ENOENT},
                                      {"CacheError", EIO}}};

const Kind& find_kind(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, &Kind::name);
  return found != kKinds.end() ? *found : kKinds.front();
}

}  // namespace

RemoteError::RemoteError(std::string_view kind, const std::string& url, const std::string& reason,
                         bool at_opening)
    : StorageError(Exactly{at_opening ? find_kind(kind).code : EIO}, url, reason),
      kind_(find_kind(kind).name) {}

bool RemoteError::is_timeout() const { return std::string_view(kind_) == "RemoteTimeoutError"; }

RemoteError timeout_error(const std::string& url, double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", seconds);
  return {"RemoteTimeoutError", url,
          std::string("no answer for ") + text.data() +
              " s: is its server reachable? Later reads try again (--remote-timeout)"};
}

bool is_url(std::string_view text) {
  constexpr std::array<std::string_view, 6> kSchemes{"s3://",   "gs://",    "az://",
                                                     "http://", "https://", "file://"};
  return std::ranges::any_of(kSchemes, [text](std::string_view scheme) {
    return std::ranges::equal(text.substr(0, scheme.size()), scheme, {},
                              [](unsigned char c) { return std::tolower(c); });
  });
}

std::string shown_url(std::string_view url) {
  if (!is_url(url)) return std::string(url);
  const size_t begin = url.find("://") + 3;
  // The names of objects in buckets have such characters.
  if (std::tolower(url.front()) == 'h') url = url.substr(0, url.find_first_of("?#"));
  const size_t end = std::min(url.find('/', begin), url.size());
  const size_t at = url.substr(0, end).rfind('@');
  if (at == url.npos || at < begin) return std::string(url);
  return std::string(url.substr(0, begin)) + std::string(url.substr(at + 1));
}

}  // namespace ffrfs::remote
