#include "entries/folder_walk.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "io/error.h"
#include "io/file_time.h"

namespace ffrfs {
namespace {

constexpr size_t kPartCount = 4096;
// For fewer names, a thread would take longer to start than to work.
constexpr size_t kLeastPerThread = 128;
constexpr size_t kThreadLimit = 4;

}  // namespace

FolderWalk::FolderWalk(int folder, std::string path) : folder_(folder), path_(std::move(path)) {
  FileDescriptor own(fcntl(folder, F_DUPFD_CLOEXEC, 0));
  if (own.valid()) stream_.reset(fdopendir(own.get()));
  if (!stream_) throw StorageError(errno, path_, "cannot list");
  (void)own.release();
}

const std::vector<FolderWalk::Entry>& FolderWalk::next() {
  read_names();
  const size_t count = entries_.size();
  const size_t thread_count = std::clamp<size_t>(count / kLeastPerThread, 1, kThreadLimit);
  const auto begin_of = [&](size_t thread) { return count * thread / thread_count; };
  std::vector<std::jthread> threads;
  size_t thread = 1;
  try {
    for (; thread < thread_count; ++thread) {
      threads.emplace_back(
          [this, first = begin_of(thread), end = begin_of(thread + 1)] { ask_for(first, end); });
    }
  } catch (const std::system_error&) {
    ask_for(begin_of(thread), count);  // no further thread can be created: this one does their work
  }
  ask_for(0, begin_of(1));
  return entries_;
}

void FolderWalk::read_names() {
  size_t count = 0;
  while (count < kPartCount) {
    errno = 0;
    const dirent* const found = readdir(stream_.get());
    if (found == nullptr) {
      if (errno != 0) throw StorageError(errno, path_, "cannot list");
      break;
    }
    const std::string_view name = found->d_name;
    if (name == "." || name == "..") continue;
    if (count == entries_.size()) entries_.emplace_back();
    entries_[count++].name = name;
  }
  entries_.resize(count);
}

void FolderWalk::ask_for(size_t first, size_t end) {
  for (Entry& entry : std::span(entries_).subspan(first, end - first)) {
    entry.is_known = fstatat(folder_, entry.name.c_str(), &entry.info, AT_SYMLINK_NOFOLLOW) == 0;
  }
}

std::vector<std::string_view> add_regular_files(EntryList& list, uint32_t parent,
                                                const std::vector<FolderWalk::Entry>& found) {
  std::vector<std::string_view> left;
  for (const auto& [name, info, is_known] : found) {
    if (!is_known || !S_ISREG(info.st_mode) || !EntryList::is_name(name)) {
      left.push_back(name);
      continue;
    }
    list.add_file(parent, name, static_cast<uint64_t>(info.st_size), info.st_mode,
                  nanoseconds(info.st_mtim.tv_sec, info.st_mtim.tv_nsec));
  }
  return left;
}

}  // namespace ffrfs
