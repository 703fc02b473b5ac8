#include "record/sidecar_path.h"

#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "remote/remote_error.h"
#include "shard/cached_index.h"

namespace ffrfs {

std::vector<std::string> index_sidecar_paths(const std::string& pack) {
  std::vector<std::string> paths;
  if (!remote::is_url(pack)) paths.push_back(pack + ".idx");
  if (std::string cached = cached_index_path(pack); !cached.empty()) {
    paths.push_back(std::move(cached));
  }
  return paths;
}

std::vector<std::string> index_sidecar_paths(const Source& pack) {
  if (pack.identity().empty() && !remote::is_url(pack.path())) {
    return index_sidecar_paths(pack.path());
  }
  const std::string cached = cached_index_path(pack);
  return cached.empty() ? std::vector<std::string>() : std::vector{cached};
}

bool is_trusted_sidecar(const Source& sidecar, const Source& pack, size_t place) {
  if (is_own(sidecar)) return true;
  if (place != 0 || !pack.identity().empty()) return false;
  struct stat folder{};
  const std::string path = std::filesystem::path(sidecar.path()).parent_path().string();
  if (stat(path.empty() ? "." : path.c_str(), &folder) != 0) return false;
  return sidecar.owner() == 0 || sidecar.owner() == pack.owner() || (folder.st_mode & S_ISVTX) == 0;
}

}  // namespace ffrfs
