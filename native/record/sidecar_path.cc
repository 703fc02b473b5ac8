#include "record/sidecar_path.h"

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

}  // namespace ffrfs
