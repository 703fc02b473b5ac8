#include "shard/cached_index.h"

#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "remote/remote_error.h"
#include "remote/remote_opener.h"

namespace ffrfs {
namespace {

constexpr size_t kDigitCount = 32;

// Returns the first hex digits of the SHA-256 of `text`; "" if the library fails.
std::string digest(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash;
  if (EVP_Digest(text.data(), text.size(), hash.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    return "";
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  for (size_t i = 0; i < kDigitCount / 2; ++i) {
    digits += kDigits[hash[i] >> 4];
    digits += kDigits[hash[i] & 15];
  }
  return digits;
}

// Returns "" if there is none. Ignores relative paths, as the XDG specification requires.
std::string cache_folder() {
  for (const auto& [variable, below] :
       {std::pair("XDG_CACHE_HOME", ""), std::pair("HOME", "/.cache")}) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && value[0] == '/') return std::string(value) + below;
  }
  return geteuid() == 0 ? "/var/cache" : "";
}

// Returns "" if there is no cache directory.
std::string path_of(const std::string& identity) {
  const std::string folder = cache_folder();
  const std::string digits = folder.empty() ? "" : digest(identity);
  return digits.empty() ? "" : folder + "/ffrfs/index/" + digits + ".idx";
}

}  // namespace

std::string cached_index_path(const std::string& file) {
  if (remote::is_url(file)) return cached_index_path(*remote::open_source(file));
  std::error_code unknown;  // then it has no path in the cache
  const std::string real_path = std::filesystem::canonical(file, unknown).string();
  return unknown ? "" : path_of(real_path);
}

std::string cached_index_path(const Source& file) {
  const std::string identity = file.identity();
  if (!identity.empty()) return path_of(identity);
  return remote::is_url(file.path()) ? "" : cached_index_path(file.path());
}

bool is_trusted_index(const Source& index, const Source& file, bool is_beside) {
  if (index.owner() == geteuid()) return true;
  if (!is_beside || !file.identity().empty()) return false;
  struct stat folder{};
  const std::string path = std::filesystem::path(index.path()).parent_path().string();
  if (stat(path.empty() ? "." : path.c_str(), &folder) != 0) return false;
  return index.owner() == 0 || index.owner() == file.owner() || (folder.st_mode & S_ISVTX) == 0;
}

}  // namespace ffrfs
