#include "record/sidecar_path.h"

#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace ffrfs {
namespace {

constexpr size_t kDigitCount = 32;

// The first digits of the SHA-256 of `text`; "" if the library cannot.
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

// "" if there is none. A relative path is none, as the XDG base directories have it.
std::string cache_folder() {
  for (const auto& [variable, below] :
       {std::pair("XDG_CACHE_HOME", ""), std::pair("HOME", "/.cache")}) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && value[0] == '/') return std::string(value) + below;
  }
  return geteuid() == 0 ? "/var/cache" : "";
}

}  // namespace

std::vector<std::string> index_sidecar_paths(const std::string& pack) {
  std::vector<std::string> paths{pack + ".idx"};
  const std::string folder = cache_folder();
  std::error_code unknown;  // then it has no name in the cache
  const std::string real_path = std::filesystem::canonical(pack, unknown).string();
  if (!folder.empty() && !unknown) {
    if (const std::string digits = digest(real_path); !digits.empty()) {
      paths.push_back(folder + "/ffrfs/index/" + digits + ".idx");
    }
  }
  return paths;
}

bool is_trusted_sidecar(const SourceFile& sidecar, const SourceFile& pack, size_t place) {
  struct stat info {};
  if (fstat(sidecar.fd(), &info) != 0) return false;
  if (info.st_uid == geteuid()) return true;
  if (place != 0) return false;
  struct stat whole {};
  struct stat folder {};
  const std::string path = std::filesystem::path(sidecar.path()).parent_path().string();
  if (fstat(pack.fd(), &whole) != 0 || stat(path.empty() ? "." : path.c_str(), &folder) != 0) {
    return false;
  }
  return info.st_uid == 0 || info.st_uid == whole.st_uid || (folder.st_mode & S_ISVTX) == 0;
}

}  // namespace ffrfs
