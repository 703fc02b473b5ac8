#include "record/file_packer.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>

#include "io/crc.h"
#include "io/error.h"
#include "io/file_descriptor.h"
#include "io/file_time.h"

namespace ffrfs {
namespace {

constexpr size_t kBatchSize = kIndexChunkSize;  // so that a piece of a large file is a chunk
constexpr size_t kBatchCount = 1024;  // e.g. of empty files
constexpr size_t kJobLimit = 256;
constexpr int64_t kEndOfTime = std::numeric_limits<int64_t>::max();
constexpr auto kTickInterval = std::chrono::milliseconds(100);

std::string bytes_text(uint64_t size) {
  return std::to_string(size) + (size == 1 ? " byte" : " bytes");
}

}  // namespace

// Opens files. Keeps the directory of the last file open, because the next file is mostly in the
// same one: the kernel then looks up a name, and not a path.
//
// Links that the files' rule forbids give ELOOP.
class FolderInUse {
 public:
  explicit FolderInUse(const FileList& files) : root_(files.root()), rule_(files.link_rule()) {
    if (rule_ == LinkRule::kFollow) return;
    root_fd_ = FileDescriptor(::open(root_.c_str(), kFolderFlags));
    if (!root_fd_.valid()) throw StorageError(errno, root_, "cannot open");
  }

  [[nodiscard]] int open(const std::string& path) {
    // O_NONBLOCK, because opening a FIFO that replaced the file would block.
    constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    const size_t slash = path.rfind('/');
    if (slash != std::string::npos && path.compare(0, slash, folder_) != 0) {
      folder_.assign(path, 0, slash);
      fd_ = FileDescriptor(open_by_rule(folder_, kFolderFlags));
    }
    // If that fails, opens the path, for the error of the file itself.
    if (slash == std::string::npos || !fd_.valid()) return open_by_rule(path, kFlags);
    const int last = rule_ == LinkRule::kFollow ? 0 : O_NOFOLLOW;
    const int fd = ::openat(fd_.get(), path.c_str() + slash + 1, kFlags | last);
    if (fd < 0 && errno == ELOOP && rule_ == LinkRule::kInside) return open_by_rule(path, kFlags);
    return fd;
  }

 private:
  static constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;

  [[nodiscard]] int open_by_rule(const std::string& path, int flags) const {
    if (rule_ == LinkRule::kFollow) return ::open(path.c_str(), flags);
    const int fd = open_without_links(path.substr(std::min(root_.size(), path.size())), flags);
    if (fd >= 0 || errno != ELOOP || rule_ == LinkRule::kNone) return fd;
    std::error_code error;
    const std::string root = std::filesystem::canonical(root_, error) / "";
    const std::string real = std::filesystem::canonical(path, error) / "";
    if (!error && real.starts_with(root)) {
      return open_without_links(real.substr(root.size(), real.size() - root.size() - 1), flags);
    }
    errno = error ? error.value() : ELOOP;
    return -1;
  }

  // Opens a path below the root. On a kernel before 5.6 only its last name is checked for a link.
  [[nodiscard]] int open_without_links(const std::string& path, int flags) const {
    struct open_how how{};
    how.flags = static_cast<uint64_t>(flags);
    how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
    const char* const name = path.empty() ? "." : path.c_str();
    const long fd = syscall(SYS_openat2, root_fd_.get(), name, &how, sizeof(how));
    // EPERM: containers forbid the calls that they do not know.
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(fd);
    return ::openat(root_fd_.get(), name, flags | O_NOFOLLOW);
  }

  const std::string root_;
  const LinkRule rule_;
  FileDescriptor root_fd_;  // none if all links are followed
  std::string folder_;  // "": no directory yet
  FileDescriptor fd_;
};

namespace {

// A file that is read from its first byte to its last.
class InputFile {
 public:
  InputFile(FileToPack file, FolderInUse& folder)
      : file_(std::move(file)), fd_(folder.open(file_.path)) {
    if (!fd_.valid() && errno == ELOOP) throw changed();
    if (!fd_.valid()) throw StorageError(errno, file_.path, "cannot open");
    // A file that fits in memory is only compared at its end with the listing; that is enough if
    // the listed time is exact.
    if (file_.size > kBatchSize || !has_exact_time()) {
      opened_ = stat();
      check(*opened_);
    }
  }

  // Reads up to target.size() bytes; fewer only at the end of the file.
  [[nodiscard]] size_t read(std::span<std::byte> target) const {
    size_t size = 0;
    while (size < target.size()) {
      const size_t count = read_some(target.subspan(size));
      if (count == 0) break;
      size += count;
    }
    return size;
  }

  // Reads a whole file into a target that has room for it and for one byte more.
  [[nodiscard]] size_t read_all(std::span<std::byte> target) const {
    const size_t size = read_some(target);
    // A short read of exactly the listed size is the end: a second read is not needed.
    if (size == file_.size) return size;
    return size == 0 ? 0 : size + read(target.subspan(size));
  }

  // Must follow the last byte. `size`: how many bytes were read until the end of the file.
  void check_unchanged(uint64_t size) const {
    const struct stat now = stat();
    check(now);
    if (opened_ && !is_same(now.st_mtim, opened_->st_mtim)) throw changed();
    if (size != file_.size) {  // e.g. in /proc
      throw PackError(file_.path,
                      "its size does not tell how much it holds (" + bytes_text(file_.size) + ")");
    }
  }

 private:
  // Compares both fields, because nanoseconds() is limited to a shorter range.
  [[nodiscard]] static bool is_same(const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  }

  // Returns whether the listed number of nanoseconds stands for one time only: times beyond the
  // range of nanoseconds() all become the same number.
  [[nodiscard]] bool has_exact_time() const {
    return file_.mtime_ns && *file_.mtime_ns != nanoseconds(kEndOfTime, 0) &&
           *file_.mtime_ns != nanoseconds(-kEndOfTime, 0);
  }

  // Reads up to target.size() bytes; none at the end of the file.
  [[nodiscard]] size_t read_some(std::span<std::byte> target) const {
    while (true) {
      const ssize_t count = ::read(fd_.get(), target.data(), target.size());
      if (count >= 0) return static_cast<size_t>(count);
      if (errno == EINTR) continue;
      const int error = errno;
      check(stat());  // the file may have been replaced
      throw StorageError(error, file_.path, "cannot read");
    }
  }

  // Throws PackError unless the file is the one that was listed.
  void check(const struct stat& info) const {
    if (!S_ISREG(info.st_mode)) {
      throw PackError(file_.path, "is no longer a regular file");
    }
    check_size(info);
    if (file_.mtime_ns &&
        nanoseconds(info.st_mtim.tv_sec, info.st_mtim.tv_nsec) != *file_.mtime_ns) {
      throw changed();
    }
  }

  [[nodiscard]] PackError changed() const {
    return PackError(file_.path, "changed while it was packed; pack again");
  }

  [[nodiscard]] struct stat stat() const {
    struct stat info{};
    if (fstat(fd_.get(), &info) != 0) throw StorageError(errno, file_.path, "cannot stat");
    return info;
  }

  void check_size(const struct stat& info) const {
    const auto size = static_cast<uint64_t>(info.st_size);
    if (size == file_.size) return;
    throw PackError(file_.path, "changed size while it was packed (was " + bytes_text(file_.size) +
                                    ", now " + std::to_string(size) + ")");
  }

  const FileToPack file_;
  const FileDescriptor fd_;
  std::optional<struct stat> opened_;
};

}  // namespace

std::vector<uint32_t> FilePacker::run(size_t jobs, const Tick& tick) {
  jobs = std::clamp<size_t>(jobs, 1, std::min(kJobLimit, std::max<size_t>(count_, 1)));
  std::vector<std::jthread> threads;
  threads.reserve(jobs);
  try {
    for (size_t job = 0; job < jobs; ++job) {
      const std::lock_guard lock(mutex_);
      threads.emplace_back([this] { work(); });
      ++working_;
    }
  } catch (const std::system_error&) {
    if (threads.empty()) throw;  // else fewer threads do the work
  }
  try {
    wait(tick);
  } catch (...) {
    stop_ = 0;
    throw;  // the unwinding joins the threads
  }
  threads.clear();
  if (error_) std::rethrow_exception(error_);
  tick(files_done_, bytes_done_);
  return std::move(checksums_);
}

void FilePacker::wait(const Tick& tick) {
  std::unique_lock lock(mutex_);
  while (!idle_.wait_for(lock, kTickInterval, [this] { return working_ == 0; })) {
    lock.unlock();
    tick(files_done_, bytes_done_);
    lock.lock();
  }
}

void FilePacker::work() {
  size_t index = 0;  // of the present file
  try {
    // One byte more than a batch, to notice that a file has grown.
    const auto memory = std::make_unique_for_overwrite<std::byte[]>(kBatchSize + 1);
    const std::span buffer(memory.get(), kBatchSize + 1);
    FolderInUse folder(files_);
    while (const auto batch = take()) {
      index = batch->first;
      if (files_.size(index) > kBatchSize) {
        copy_large(*batch, buffer, folder);
      } else {
        copy_small(*batch, buffer, folder, index);
      }
    }
  } catch (...) {
    fail(index);
  }
  const std::lock_guard lock(mutex_);
  if (--working_ == 0) idle_.notify_one();
}

std::optional<FilePacker::Batch> FilePacker::take() {
  const std::lock_guard lock(mutex_);
  if (next_ >= std::min(count_, stop_.load())) return std::nullopt;
  Batch batch{.first = next_, .end = next_ + 1, .offset = next_offset_};
  uint64_t size = files_.size(next_);
  for (; batch.end < count_ && batch.end - batch.first < kBatchCount; ++batch.end) {
    const uint64_t more = files_.size(batch.end);
    if (size + more > kBatchSize) break;
    size += more;
  }
  next_ = batch.end;
  next_offset_ += size;
  return batch;
}

void FilePacker::copy_small(const Batch& batch, std::span<std::byte> buffer, FolderInUse& folder,
                            size_t& index) {
  size_t used = 0;
  for (; index < batch.end; ++index) {
    if (index >= stop_) return;
    const InputFile source(files_.file(index), folder);
    const size_t size = files_.size(index);
    const auto place = buffer.subspan(used, size + 1);
    source.check_unchanged(source.read_all(place));
    checksums_[index] = crc32(place.first(size));
    used += size;
  }
  index = batch.first;  // an error of the target concerns the whole batch
  target_.write(batch.offset, buffer.first(used));
  files_done_ += batch.end - batch.first;
  bytes_done_ += used;
}

void FilePacker::copy_large(const Batch& batch, std::span<std::byte> buffer, FolderInUse& folder) {
  const uint64_t file_size = files_.size(batch.first);
  const InputFile source(files_.file(batch.first), folder);
  uint32_t crc = 0;
  uint64_t done = 0;
  while (batch.first < stop_) {
    // Never writes past the file's place, even if the file grows; one byte more shows that.
    const uint64_t left = file_size - done;
    const size_t size = source.read(buffer.first(std::min<uint64_t>(kBatchSize, left + 1)));
    if (size > left || size == 0) {
      source.check_unchanged(done + size);
      checksums_[batch.first] = crc;
      ++files_done_;
      return;
    }
    const auto piece = buffer.first(size);
    crc = crc32(piece, crc);
    chunks_.at(first_record_ + batch.first, done / kBatchSize) = crc32c(piece);
    target_.write(batch.offset + done, piece);
    done += size;
    bytes_done_ += size;
  }
}

void FilePacker::fail(size_t index) {
  const std::lock_guard lock(mutex_);
  if (index >= stop_) return;
  stop_ = index;
  error_ = std::current_exception();
}

}  // namespace ffrfs
