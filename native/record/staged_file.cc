#include "record/staged_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "io/error.h"

namespace ffrfs {
namespace {

constexpr mode_t kMode = 0666;  // less the umask
// How much of the name is in the staging name, so that this stays below NAME_MAX.
constexpr size_t kNamePartSize = 200;
constexpr int kLinksMax = 40;  // as the kernel
// Write-back to disk is started after each of these.
constexpr uint64_t kWriteBackSize = uint64_t{8} << 20;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Returns the target of a symbolic link, because a rename would replace the link itself. The target
// need not exist.
std::string resolve_link(const std::string& path) {
  std::filesystem::path place = path;
  for (int count = 0; count < kLinksMax; ++count) {
    std::error_code is_no_link;
    const auto target = std::filesystem::read_symlink(place, is_no_link);
    if (is_no_link) return place;
    place = place.parent_path() / target;
  }
  return path;
}

// Returns a number that identifies the machine, as ffrfs/files/leftovers.py computes it.
uint32_t machine() {
  utsname names{};
  uname(&names);
  std::string text = names.nodename;
  text.push_back('\0');
  const FileDescriptor file(::open("/etc/machine-id", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> id;
  const ssize_t count = file.valid() ? read(file.get(), id.data(), id.size()) : 0;
  if (count > 0) text.append(id.data(), static_cast<size_t>(count));
  uint32_t digest = 2166136261;  // FNV-1a
  for (const char byte : text) digest = (digest ^ static_cast<unsigned char>(byte)) * 16777619;
  return digest;
}

std::string staging_name(const std::string& name) {
  static const uint32_t tag = machine();
  uint32_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) {
    random = static_cast<uint32_t>(getpid());  // O_EXCL fails if the name is taken
  }
  std::array<char, 17> digits;
  std::snprintf(digits.data(), digits.size(), "%08x%08x", tag, random);
  return "." + name.substr(0, kNamePartSize) + "." + digits.data() + ".partial";
}

// Locks a file that may have a staging name, so that it is not taken for a leftover of a dead
// process; returns false if it was removed as one before.
bool hold(const FileDescriptor& fd) {
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat info{};
  return fstat(fd.get(), &info) != 0 || info.st_nlink > 0;
}

std::string proc_name(const FileDescriptor& fd) {
  return "/proc/self/fd/" + std::to_string(fd.get());
}

// Renames a file unless the new name is taken: then, as for other failures, sets errno and returns
// false.
bool rename_to_new(const FileDescriptor& folder, const std::string& from, const std::string& to) {
  const int fd = folder.get();
  if (renameat2(fd, from.c_str(), fd, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // The file system cannot look and rename in one step; this leaves another process a moment.
  struct stat info{};
  if (fstatat(fd, to.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    errno = EEXIST;
    return false;
  }
  return errno == ENOENT && renameat(fd, from.c_str(), fd, to.c_str()) == 0;
}

}  // namespace

StagedFile::StagedFile(std::string path, Links links) : path_(std::move(path)), owner_(getpid()) {
  if (path_.find('\0') != std::string::npos) throw StorageError(EINVAL, path_, "cannot create");
  const std::string place = links == Links::kFollow ? resolve_link(path_) : path_;
  name_ = place.substr(place.rfind('/') + 1);
  if (name_.empty()) throw StorageError(path_.empty() ? ENOENT : EISDIR, path_, "cannot create");
  // Opened now, so that a chdir() of the process does not change the target.
  folder_ = FileDescriptor(::open(folder_of(place).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.valid()) throw StorageError(errno, path_, "cannot create");
  refuse_irregular_target(links);
  open_staging();
}

void StagedFile::refuse_irregular_target(Links links) const {
  struct stat info{};
  const int flags = links == Links::kFollow ? 0 : AT_SYMLINK_NOFOLLOW;
  if (fstatat(folder_.get(), name_.c_str(), &info, flags) != 0) {
    if (errno == ENOENT) return;
    throw StorageError(errno, path_, "cannot create");
  }
  if (S_ISDIR(info.st_mode)) throw StorageError(EISDIR, path_, "cannot create");
  if (!S_ISREG(info.st_mode)) {
    throw StorageError(EEXIST, path_, "cannot replace it: not a regular file");
  }
}

void StagedFile::open_staging() {
  fd_ = FileDescriptor(::openat(folder_.get(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode));
  // Without /proc, the file could not get a name later.
  if (fd_.valid() && access(proc_name(fd_).c_str(), F_OK) == 0) {
    (void)hold(fd_);  // it gets a staging name at publish()
    return;
  }
  do {
    staging_name_ = staging_name(name_);
    fd_ = FileDescriptor(::openat(folder_.get(), staging_name_.c_str(),
                                  O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, kMode));
    if (!fd_.valid()) {
      staging_name_.clear();
      throw StorageError(errno, path_, "cannot create");
    }
  } while (!hold(fd_));
}

void StagedFile::reserve(uint64_t offset, uint64_t size) {
  if (size == 0) return;
  if (fallocate(fd_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(size)) == 0) return;
  // Other errors mean that the file system cannot reserve; write() works without.
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) {
    throw StorageError(errno, path_, "cannot write");
  }
}

void StagedFile::write(uint64_t offset, std::span<const std::byte> bytes) {
  const size_t size = bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      throw StorageError(errno, path_, "cannot write");
    }
    offset += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  write_back(size);
}

// The kernel alone would let gigabytes of dirty pages collect, and then fsync() would wait for the
// disk while nothing else happens.
void StagedFile::write_back(size_t size) {
  const uint64_t before = written_size_.fetch_add(size, std::memory_order_relaxed);
  if (before / kWriteBackSize != (before + size) / kWriteBackSize) {
    (void)sync_file_range(fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE);  // fsync() reports errors
  }
}

void StagedFile::publish(Namesake namesake) {
  if (fsync(fd_.get()) != 0) throw StorageError(errno, path_, "cannot sync");
  if (namesake == Namesake::kReplaced || !link_name()) rename_to_name(namesake);
  fd_.reset();  // last, because it locks the staging name
  // EINVAL: the file system does not sync directories.
  if (fsync(folder_.get()) != 0 && errno != EINVAL) {
    throw StorageError(errno, path_, "cannot sync its directory");
  }
}

void StagedFile::rename_to_name(Namesake namesake) {
  if (staging_name_.empty()) {
    // linkat() replaces nothing, so this case needs a staging name, too.
    std::string name = staging_name(name_);
    if (!link_as(name)) throw StorageError(errno, path_, "cannot create");
    staging_name_ = std::move(name);
  }
  const bool is_renamed =
      namesake == Namesake::kKept
          ? rename_to_new(folder_, staging_name_, name_)
          : renameat(folder_.get(), staging_name_.c_str(), folder_.get(), name_.c_str()) == 0;
  if (!is_renamed) throw StorageError(errno, path_, "cannot create");
  staging_name_.clear();
}

bool StagedFile::link_as(const std::string& name) const {
  if (staging_name_.empty()) {
    return linkat(AT_FDCWD, proc_name(fd_).c_str(), folder_.get(), name.c_str(),
                  AT_SYMLINK_FOLLOW) == 0;
  }
  return linkat(folder_.get(), staging_name_.c_str(), folder_.get(), name.c_str(), 0) == 0;
}

// Replaces nothing. Returns false if the file system has no hard links.
bool StagedFile::link_name() {
  if (!link_as(name_)) {
    if (errno == EEXIST || staging_name_.empty()) throw StorageError(errno, path_, "cannot create");
    return false;
  }
  if (!staging_name_.empty()) unlinkat(folder_.get(), staging_name_.c_str(), 0);
  staging_name_.clear();
  return true;
}

void StagedFile::discard() noexcept {
  fd_.reset();
  // A forked child drops only its copy of the object, not the parent's file.
  if (!staging_name_.empty() && owner_ == getpid()) {
    unlinkat(folder_.get(), staging_name_.c_str(), 0);
  }
  staging_name_.clear();
}

}  // namespace ffrfs
