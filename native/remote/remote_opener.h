// Opens paths and URLs. A process has one opener of URLs: the worker gets its link from the daemon,
// and the library from the Python module (python/remote.cc).
//
// Thread-safe; survives fork().

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/process_local.h"
#include "io/source.h"
#include "remote/object_link.h"
#include "remote/remote_file.h"

namespace ffrfs::remote {

class RemoteOpener {
 public:
  using NewLink = ObjectLink::NewLink;

  // Calls `new_link` when the first object is opened, in each process, and when a link has ended.
  RemoteOpener(NewLink new_link, std::chrono::milliseconds timeout);
  // For a caller that brings the links, with replace(). Starts the link's thread in this
  // constructor.
  RemoteOpener(FileDescriptor link, std::chrono::milliseconds timeout);
  void replace(FileDescriptor link) { links_->get().replace(std::move(link)); }

  // Throws RemoteError, and the errors of `new_link`.
  [[nodiscard]] std::unique_ptr<const Source> open(const std::string& url);
  [[nodiscard]] std::vector<std::string> list(const std::string& url);

 private:
  friend class OpenTogether;
  // An object that is being opened, once for all that open it at the same time.
  struct Shared {
    size_t user_count = 0;
    ObjectLink::Opening opening{};
    std::shared_ptr<const OpenObject> open{};
  };
  // While one lives, its URL is opened, or stays open.
  class User {
   public:
    User(RemoteOpener& opener, std::string url);
    User(const User&) = delete;
    User& operator=(const User&) = delete;
    ~User();
    [[nodiscard]] std::shared_ptr<const OpenObject> wait() const;

   private:
    RemoteOpener& opener_;
    const std::string url_;
  };

  struct Sharing {
    std::mutex mutex;  // guards all below
    std::map<std::string, Shared> objects;
  };
  const std::shared_ptr<Links> links_;
  // A child must not wait for what its parent's link opens.
  ProcessLocal<Sharing> sharing_{[] { return std::make_unique<Sharing>(); }};
};

// Sets and returns the opener of the process; nullptr if there is none.
void set_opener(std::shared_ptr<RemoteOpener> opener);
[[nodiscard]] std::shared_ptr<RemoteOpener> opener();

// While this object lives, the URLs among `paths` are opened once each, all at the same time.
class OpenTogether {
 public:
  explicit OpenTogether(const std::vector<std::string>& paths);
  OpenTogether(const OpenTogether&) = delete;
  OpenTogether& operator=(const OpenTogether&) = delete;
  ~OpenTogether() = default;

 private:
  std::shared_ptr<RemoteOpener> opener_;
  std::deque<RemoteOpener::User> users_;
};

// Opens a local file or a URL. Throws StorageError.
[[nodiscard]] std::unique_ptr<const Source> open_source(const std::string& path);

// Returns the URLs directly below one that ends in "/". Throws RemoteError.
[[nodiscard]] std::vector<std::string> list_urls(const std::string& folder);

}  // namespace ffrfs::remote
