#include "record/file_packer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <system_error>
#include <thread>

#include "io/crc.h"
#include "io/error.h"
#include "io/file_time.h"
#include "io/file_descriptor.h"

namespace ffrfs {
namespace {

constexpr size_t kBatchSize = kIndexChunkSize;  // so a piece of a large file is a chunk
constexpr size_t kBatchCount = 1024;  // of empty files, say
constexpr size_t kJobLimit = 256;
constexpr auto kTickInterval = std::chrono::milliseconds(100);

std::string bytes_text(uint64_t size) {
  return std::to_string(size) + (size == 1 ? " byte" : " bytes");
}

// A file while it is read from its first byte to its last.
class InputFile {
 public:
  explicit InputFile(FileToPack file)
      // O_NONBLOCK: a FIFO that took the file's place must not hold us.
      : file_(std::move(file)),
        fd_(::open(file_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (!fd_.valid()) throw StorageError(errno, file_.path, "cannot open");
    opened_ = stat();
    if (!S_ISREG(opened_.st_mode)) {
      throw PackError(file_.path, "is no longer a regular file");
    }
    check_size(opened_);
    const timespec& time = opened_.st_mtim;
    if (file_.mtime_ns && nanoseconds(time.tv_sec, time.tv_nsec) != *file_.mtime_ns) {
      throw changed();
    }
  }

  // Up to target.size() bytes; fewer only at the end of the file.
  [[nodiscard]] size_t read(std::span<std::byte> target) const {
    size_t size = 0;
    while (size < target.size()) {
      const ssize_t count = ::read(fd_.get(), target.data() + size, target.size() - size);
      if (count < 0) {
        if (errno == EINTR) continue;
        throw StorageError(errno, file_.path, "cannot read");
      }
      if (count == 0) break;
      size += static_cast<size_t>(count);
    }
    return size;
  }

  // After the last byte: `size` have been read, until the end.
  void check_unchanged(uint64_t size) const {
    const struct stat now = stat();
    check_size(now);
    if (!is_same(now.st_mtim, opened_.st_mtim)) throw changed();
    if (size != file_.size) {  // as in /proc
      throw PackError(file_.path, "its size does not tell how much it holds (" +
                             bytes_text(file_.size) + ")");
    }
  }

 private:
  // Not as nanoseconds alone, which do not reach as far.
  [[nodiscard]] static bool is_same(const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  }

  [[nodiscard]] PackError changed() const {
    return PackError(file_.path, "changed while it was packed; pack again");
  }

  [[nodiscard]] struct stat stat() const {
    struct stat info {};
    if (fstat(fd_.get(), &info) != 0) throw StorageError(errno, file_.path, "cannot stat");
    return info;
  }

  void check_size(const struct stat& info) const {
    const auto size = static_cast<uint64_t>(info.st_size);
    if (size == file_.size) return;
    throw PackError(file_.path, "changed size while it was packed (was " +
                           bytes_text(file_.size) + ", now " + std::to_string(size) + ")");
  }

  const FileToPack file_;
  const FileDescriptor fd_;
  struct stat opened_ {};
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
    if (threads.empty()) throw;  // else fewer will do
  }
  try {
    wait(tick);
  } catch (...) {
    stop_ = 0;
    throw;  // the threads are joined on the way out
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
  size_t index = 0;  // of the file in hand
  try {
    // One byte more than a batch: it shows that a file goes on.
    const auto memory = std::make_unique_for_overwrite<std::byte[]>(kBatchSize + 1);
    const std::span buffer(memory.get(), kBatchSize + 1);
    while (const auto batch = take()) {
      index = batch->first;
      if (files_.size(index) > kBatchSize) {
        copy_large(*batch, buffer);
      } else {
        copy_small(*batch, buffer, index);
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

void FilePacker::copy_small(const Batch& batch, std::span<std::byte> buffer, size_t& index) {
  size_t used = 0;
  for (; index < batch.end; ++index) {
    if (index >= stop_) return;
    const InputFile source(files_.file(index));
    const size_t size = files_.size(index);
    const auto place = buffer.subspan(used, size + 1);
    source.check_unchanged(source.read(place));
    checksums_[index] = crc32(place.first(size));
    used += size;
  }
  index = batch.first;  // an error of the target concerns the batch
  target_.write(batch.offset, buffer.first(used));
  files_done_ += batch.end - batch.first;
  bytes_done_ += used;
}

void FilePacker::copy_large(const Batch& batch, std::span<std::byte> buffer) {
  const uint64_t file_size = files_.size(batch.first);
  const InputFile source(files_.file(batch.first));
  uint32_t crc = 0;
  uint64_t done = 0;
  while (batch.first < stop_) {
    // Never past its place, however the file grows; the byte too many shows it.
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
