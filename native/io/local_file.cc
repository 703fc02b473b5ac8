#include "io/local_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "io/error.h"
#include "io/file_time.h"

namespace ffrfs {
namespace {

constexpr size_t kUsualAlignment = 4096;
const auto kPageSize = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// cachestat(2), since Linux 6.5, counts the pages of a range that are in the page cache. The C
// library does not have it yet. Newer kernels refuse (EPERM) callers that may not write the file.
constexpr long kCachestatNumber = 451;
struct CachestatRange {
  uint64_t offset;
  uint64_t size;
};
struct Cachestat {
  uint64_t cached_pages;
  uint64_t others[4];  // dirty, in writeback, evicted, recently evicted
};
constexpr size_t kLargestAlignment = 65536;
// After so many reads in a row that were fully cached, reads skip the check with cachestat(). A
// read that then misses makes the kernel fetch pages that a direct read fetches again: once per
// run.
constexpr uint32_t kCachedRun = 256;
constexpr size_t kAdviceSize = 128 << 10;

// Returns the alignment that direct I/O on `fd` needs; 0 if the kernel says that it is not
// possible. Kernels before 6.1, and file systems that do not say, get the usual 4096.
size_t direct_alignment(int fd) {
  struct statx info{};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0 ||
      (info.stx_mask & STATX_DIOALIGN) == 0) {
    return kUsualAlignment;
  }
  if (info.stx_dio_offset_align == 0) return 0;
  if (info.stx_dio_mem_align > Buffer::kAlignment) return 0;
  if (info.stx_dio_offset_align > kLargestAlignment) return 0;
  return std::max<size_t>(info.stx_dio_offset_align, kUsualAlignment);
}

// Returns whether the file system is known to start reads on POSIX_FADV_WILLNEED, many at once.
// Others may ignore it, or serve no read from the page cache (FUSE).
bool takes_advice(int fd) {
  struct statfs info{};
  if (fstatfs(fd, &info) != 0) return false;
  constexpr std::array<uint32_t, 5> kKnown{EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                           F2FS_SUPER_MAGIC, NFS_SUPER_MAGIC};
  return std::ranges::find(kKnown, static_cast<uint32_t>(info.f_type)) != kKnown.end();
}

// Opens the same inode again, even if its name was removed or reused since.
FileDescriptor reopen_direct(int fd) {
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return FileDescriptor(::open(link.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
}

// Returns the rest of the vectors after their first `done` bytes were filled.
std::span<iovec> behind(std::span<iovec> vectors, size_t done) {
  while (!vectors.empty() && done >= vectors.front().iov_len) {
    done -= vectors.front().iov_len;
    vectors = vectors.subspan(1);
  }
  if (!vectors.empty()) {
    iovec& first = vectors.front();
    first = {static_cast<std::byte*>(first.iov_base) + done, first.iov_len - done};
  }
  return vectors;
}

}  // namespace

LocalFile::Opened LocalFile::open(const std::string& path) {
  // The kernel would see the path up to it alone, which is another file.
  if (path.find('\0') != std::string::npos) throw StorageError(EINVAL, path, "cannot open");
  // O_NONBLOCK, because opening a FIFO would block; regular files ignore it.
  Opened opened{.descriptor =
                    FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  if (!opened.descriptor.valid()) throw StorageError(errno, path, "cannot open");
  return check(std::move(opened), path);
}

LocalFile::Opened LocalFile::check(Opened opened, const std::string& path) {
  if (fstat(opened.descriptor.get(), &opened.info) != 0) {
    throw StorageError(errno, path, "cannot stat");
  }
  if (S_ISDIR(opened.info.st_mode)) throw StorageError(EISDIR, path, "cannot open");
  if (!S_ISREG(opened.info.st_mode)) throw StorageError(EINVAL, path, "not a regular file");
  return opened;
}

LocalFile::LocalFile(const std::string& path, Opened opened)
    : Source(path,
             {.size = static_cast<uint64_t>(opened.info.st_size),
              .mtime_ns = nanoseconds(opened.info.st_mtim.tv_sec, opened.info.st_mtim.tv_nsec),
              .owner = opened.info.st_uid,
              .device = opened.info.st_dev,
              .inode = opened.info.st_ino}),
      buffered_(std::move(opened.descriptor)),
      reads_ahead_(takes_advice(fd())) {}

LocalFile::LocalFile(const std::string& path, FileDescriptor descriptor)
    : LocalFile(path, check({.descriptor = std::move(descriptor)}, path)) {}

void LocalFile::open_direct() {
  if (const size_t alignment = direct_alignment(fd()); alignment != 0) {
    direct_descriptor_ = reopen_direct(fd());
    direct_ = {.fd = direct_descriptor_.get(), .alignment = alignment};
  }
}

std::optional<uint64_t> LocalFile::cached_pages(uint64_t offset, size_t size) const {
  if (!cachestat_works_.load(std::memory_order_relaxed)) return std::nullopt;
  const CachestatRange range{offset, size};
  Cachestat found{};
  if (syscall(kCachestatNumber, fd(), &range, &found, 0) == 0) return found.cached_pages;
  cachestat_works_.store(false, std::memory_order_relaxed);
  // Turns readahead off, so that the probe of is_cached() reads at most one page if it misses.
  posix_fadvise(fd(), 0, 0, POSIX_FADV_RANDOM);
  return std::nullopt;
}

bool LocalFile::is_cached(uint64_t offset, size_t size) const {
  if (cached_run_.load(std::memory_order_relaxed) >= kCachedRun) return true;
  if (const auto pages = cached_pages(offset, size)) {
    return *pages >= (offset % kPageSize + size + kPageSize - 1) / kPageSize;
  }
  // Probes the middle: the pages at both ends may be shared with other records.
  std::byte byte{};
  const iovec vector{&byte, 1};
  return preadv2(fd(), &vector, 1, static_cast<off_t>(offset + size / 2), RWF_NOWAIT) == 1;
}

bool LocalFile::read_now(uint64_t offset, Parts parts) const {
  std::array<iovec, kPartsMax> vectors;
  size_t count = 0;
  for (const auto part : parts) {
    if (!part.empty()) vectors.at(count++) = {part.data(), part.size()};
  }
  for (auto rest = std::span(vectors).first(count); !rest.empty();) {
    const ssize_t done = preadv2(fd(), rest.data(), static_cast<int>(rest.size()),
                                 static_cast<off_t>(offset), RWF_NOWAIT);
    // EAGAIN: not cached. EOPNOTSUPP: not supported. 0: the file has shrunk. A partial read ends
    // where the cached pages end. After any of these, the caller reads again and waits, which finds
    // the error, if there is one.
    if (done <= 0) {
      if (done < 0 && errno == EINTR) continue;
      if (done < 0 && errno == EOPNOTSUPP) reads_now_.store(false, std::memory_order_relaxed);
      cached_run_.store(0, std::memory_order_relaxed);
      return false;
    }
    offset += static_cast<uint64_t>(done);
    rest = behind(rest, static_cast<size_t>(done));
  }
  // Stores only if the count changes, to keep the cache line shared between cores.
  const uint32_t run = cached_run_.load(std::memory_order_relaxed);
  if (run < kCachedRun) cached_run_.store(run + 1, std::memory_order_relaxed);
  return true;
}

void LocalFile::read_fully(uint64_t offset, std::span<std::byte> target) const {
  while (!target.empty()) {
    const ssize_t count = pread(fd(), target.data(), target.size(), static_cast<off_t>(offset));
    if (count < 0) {
      const int error_number = errno;  // saved first, because building the text allocates
      if (error_number == EINTR) continue;
      throw StorageError(error_number, path(), "cannot read at offset " + std::to_string(offset));
    }
    if (count == 0) {
      throw StorageError(
          EIO, path(),
          "nothing at offset " + std::to_string(offset) + ": shorter than when opened");
    }
    offset += static_cast<uint64_t>(count);
    target = target.subspan(static_cast<size_t>(count));
  }
}

void LocalFile::will_need(uint64_t offset, size_t size) const {
  // The kernel reads at most the device's readahead for one call.
  for (size_t done = 0; done < size; done += kAdviceSize) {
    posix_fadvise(fd(), static_cast<off_t>(offset + done),
                  static_cast<off_t>(std::min(size - done, kAdviceSize)), POSIX_FADV_WILLNEED);
  }
}

void LocalFile::drop_cached(uint64_t offset, uint64_t size) const {
  cached_run_.store(0, std::memory_order_relaxed);
  posix_fadvise(fd(), static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_DONTNEED);
}

std::unique_ptr<const Source> open_local_file(const std::string& path) {
  return std::make_unique<const LocalFile>(path);
}

}  // namespace ffrfs
