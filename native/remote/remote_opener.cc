#include "remote/remote_opener.h"

#include <algorithm>
#include <utility>

#include "io/local_file.h"
#include "remote/remote_error.h"

namespace ffrfs::remote {
namespace {

// Opening a pack first reads the end of the file, where the index ends, and its beginning.
constexpr uint64_t kEndBytes = 64 << 10;

void ask_for_ends(const RemoteFile& file) {
  if (file.size() == 0) return;
  const uint64_t end = std::min(file.size(), kEndBytes);
  file.will_need(0, 1);
  file.will_need(file.size() - end, static_cast<size_t>(end));
}

// Never destroyed, because its thread may still run when the process ends.
struct ProcessOpener {
  std::mutex mutex;
  std::shared_ptr<RemoteOpener> opener;
};
ProcessOpener& process_opener() {
  static auto* const only = new ProcessOpener;
  return *only;
}

std::shared_ptr<RemoteOpener> opener_or_error(const std::string& url) {
  if (auto found = opener()) return found;
  throw RemoteError("RemoteError", shown_url(url), "this process has no fetcher for URLs", true);
}

}  // namespace

RemoteOpener::RemoteOpener(NewLink new_link, std::chrono::milliseconds timeout)
    : links_(std::make_shared<Links>([new_link, timeout] {
        return std::make_unique<ObjectLink>(new_link(), timeout, new_link);
      })) {}

RemoteOpener::RemoteOpener(FileDescriptor link, std::chrono::milliseconds timeout)
    : links_(std::make_shared<Links>(
          [first = std::make_shared<FileDescriptor>(std::move(link)), timeout] {
            return std::make_unique<ObjectLink>(std::move(*first), timeout);
          })) {
  // Makes the link now, because several threads might make it at the same time later.
  (void)links_->get();
}

std::unique_ptr<const Source> RemoteOpener::open(const std::string& url) {
  auto file = std::make_unique<const RemoteFile>(User(*this, url).wait());
  ask_for_ends(*file);
  return file;
}

std::vector<std::string> RemoteOpener::list(const std::string& url) {
  return links_->get().list(url);
}

RemoteOpener::User::User(RemoteOpener& opener, std::string url)
    : opener_(opener), url_(std::move(url)) {
  ObjectLink& link = opener_.links_->get();
  Sharing& sharing = opener_.sharing_.get();
  const std::lock_guard lock(sharing.mutex);
  Shared& shared = sharing.objects[url_];
  if (shared.user_count == 0) shared.opening = link.start_open(url_);
  ++shared.user_count;
}

std::shared_ptr<const OpenObject> RemoteOpener::User::wait() const {
  Sharing& sharing = opener_.sharing_.get();
  std::unique_lock lock(sharing.mutex);
  Shared& shared = sharing.objects.at(url_);  // stays there as long as this user
  const std::shared_future<ObjectLink::ObjectPtr> coming = shared.opening.coming;
  lock.unlock();
  ObjectLink::ObjectPtr object = wait_for_answer(coming);
  lock.lock();
  if (!shared.open) {
    const std::shared_ptr<Links>& links = opener_.links_;
    shared.open = std::make_shared<const OpenObject>(links, links->get(), std::move(object));
  }
  return shared.open;
}

RemoteOpener::User::~User() {
  Sharing& sharing = opener_.sharing_.get();
  Shared over;
  {
    const std::lock_guard lock(sharing.mutex);
    const auto found = sharing.objects.find(url_);
    // A child knows nothing of what its parent opens.
    if (found == sharing.objects.end() || --found->second.user_count > 0) return;
    over = std::move(found->second);
    sharing.objects.erase(found);
  }
  if (over.open || !over.opening.settled->exchange(true)) return;
  opener_.links_->get().close(*over.opening.coming.get());
}

void set_opener(std::shared_ptr<RemoteOpener> opener) {
  const std::lock_guard lock(process_opener().mutex);
  process_opener().opener = std::move(opener);
}

std::shared_ptr<RemoteOpener> opener() {
  const std::lock_guard lock(process_opener().mutex);
  return process_opener().opener;
}

OpenTogether::OpenTogether(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (!is_url(path) || path.ends_with('/')) continue;
    if (!opener_) opener_ = opener_or_error(path);
    users_.emplace_back(*opener_, path);
  }
}

std::unique_ptr<const Source> open_source(const std::string& path) {
  if (!is_url(path)) return open_local_file(path);
  return opener_or_error(path)->open(path);
}

std::vector<std::string> list_urls(const std::string& folder) {
  return opener_or_error(folder)->list(folder);
}

}  // namespace ffrfs::remote
