// Opens what paths and URLs name. There is one opener of URLs for a process: of the worker its
// daemon brings the link, of the library the Python module asks for one (python/remote.cc).
//
// Any thread; survives fork().

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/source.h"
#include "remote/fetch_link.h"
#include "remote/remote_file.h"

namespace ffrfs::remote {

class RemoteOpener {
 public:
  using NewLink = FetchLink::NewLink;

  // `new_link` is asked when the first object is opened, in each process, and when a link has
  // ended.
  RemoteOpener(NewLink new_link, std::chrono::milliseconds timeout);
  // The links are the caller's to bring. This thread starts that of the link.
  RemoteOpener(FileDescriptor link, std::chrono::milliseconds timeout);
  void replace(FileDescriptor link) { links_->get().replace(std::move(link)); }

  // Throws RemoteError, and what `new_link` throws.
  [[nodiscard]] std::unique_ptr<const Source> open(const std::string& url);
  [[nodiscard]] std::vector<std::string> list(const std::string& url);

 private:
  friend class OpenTogether;
  // Objects that several will open, while an OpenTogether lives.
  struct Shared {
    size_t user_count = 0;
    std::shared_future<FetchLink::ObjectPtr> coming{};
    std::shared_ptr<const OpenObject> open{};
  };

  void begin(const std::vector<std::string>& urls);
  void end(const std::vector<std::string>& urls);
  [[nodiscard]] std::shared_ptr<const OpenObject> find_shared(const std::string& url);
  [[nodiscard]] std::shared_ptr<const OpenObject> make(FetchLink::ObjectPtr object) const;

  const std::shared_ptr<Links> links_;
  std::mutex mutex_;  // guards shared_
  std::map<std::string, Shared> shared_;
};

// The process's; nullptr: none.
void set_opener(std::shared_ptr<RemoteOpener> opener);
[[nodiscard]] std::shared_ptr<RemoteOpener> opener();

// While one lives, those of `paths` that are URLs are opened once, all at the same time.
class OpenTogether {
 public:
  explicit OpenTogether(const std::vector<std::string>& paths);
  OpenTogether(const OpenTogether&) = delete;
  OpenTogether& operator=(const OpenTogether&) = delete;
  ~OpenTogether();

 private:
  std::shared_ptr<RemoteOpener> opener_;
  std::vector<std::string> urls_;
};

// A file of this machine, or what a URL names. Throws StorageError.
[[nodiscard]] std::unique_ptr<const Source> open_source(const std::string& path);

// The URLs of what lies directly below one that ends in "/". Throws RemoteError.
[[nodiscard]] std::vector<std::string> list_urls(const std::string& folder);

}  // namespace ffrfs::remote
