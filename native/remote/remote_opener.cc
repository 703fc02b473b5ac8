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

std::shared_ptr<const OpenObject> RemoteOpener::make(ObjectLink::ObjectPtr object) const {
  return std::make_shared<const OpenObject>(links_, links_->get(), std::move(object));
}

std::unique_ptr<const Source> RemoteOpener::open(const std::string& url) {
  auto object = find_shared(url);
  if (!object) object = make(links_->get().open(url));
  auto file = std::make_unique<const RemoteFile>(std::move(object));
  ask_for_ends(*file);
  return file;
}

std::vector<std::string> RemoteOpener::list(const std::string& url) {
  return links_->get().list(url);
}

void RemoteOpener::begin(const std::vector<std::string>& urls) {
  ObjectLink& link = links_->get();
  Sharing& sharing = sharing_.get();
  const std::lock_guard lock(sharing.mutex);
  for (const std::string& url : urls) {
    Shared& shared = sharing.objects[url];
    if (shared.user_count++ == 0) shared.coming = link.start_open(url);
  }
}

std::shared_ptr<const OpenObject> RemoteOpener::find_shared(const std::string& url) {
  Sharing& sharing = sharing_.get();
  std::shared_future<ObjectLink::ObjectPtr> coming;
  {
    const std::lock_guard lock(sharing.mutex);
    const auto found = sharing.objects.find(url);
    if (found == sharing.objects.end()) return nullptr;
    if (found->second.open) return found->second.open;
    coming = found->second.coming;
  }
  ObjectLink::ObjectPtr object = wait_for_answer(coming);
  const std::lock_guard lock(sharing.mutex);
  const auto found = sharing.objects.find(url);
  if (found == sharing.objects.end()) return make(std::move(object));
  if (!found->second.open) found->second.open = make(std::move(object));
  return found->second.open;
}

void RemoteOpener::end(const std::vector<std::string>& urls) {
  Sharing& sharing = sharing_.get();
  std::vector<Shared> over;
  {
    const std::lock_guard lock(sharing.mutex);
    for (const std::string& url : urls) {
      const auto found = sharing.objects.find(url);
      if (found == sharing.objects.end() || --found->second.user_count > 0) continue;
      over.push_back(std::move(found->second));
      sharing.objects.erase(found);
    }
  }
  for (Shared& shared : over) {
    const bool has_come =
        shared.coming.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    if (shared.open || !has_come) continue;
    try {
      [[maybe_unused]] const auto closed = make(shared.coming.get());
    } catch (const std::exception&) {  // the open failed: there is nothing to close
    }
  }
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
  std::ranges::copy_if(paths, std::back_inserter(urls_), [](const std::string& path) {
    return is_url(path) && !path.ends_with('/');
  });
  if (urls_.empty()) return;
  opener_ = opener_or_error(urls_.front());
  opener_->begin(urls_);
}

OpenTogether::~OpenTogether() {
  if (opener_) opener_->end(urls_);
}

std::unique_ptr<const Source> open_source(const std::string& path) {
  if (!is_url(path)) return open_local_file(path);
  return opener_or_error(path)->open(path);
}

std::vector<std::string> list_urls(const std::string& folder) {
  return opener_or_error(folder)->list(folder);
}

}  // namespace ffrfs::remote
