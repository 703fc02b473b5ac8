// The file that records are read from: a local file (local_file.h), or a cache that is filled from
// a remote while it is read. Bytes that must be downloaded first are far, all others near.
//
//   read_cached() ── reads if all of it is in memory   never waits
//   prepare() ────── starts a download, reports back   never waits; for the read queue
//   read_fully() ─── reads                             waits as long as it takes
//
// In a thread that must not wait for a download (NearOnly), read_fully() throws FarAway instead.
//
// No byte is trusted: readers verify checksums (shard/record_checksum.h). After opening, a source
// is immutable except for its cache, which it locks itself: any number of threads may read.

#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "io/error.h"
#include "io/wait_check.h"

namespace ffrfs {

// A descriptor that bypasses the page cache, for reads by the kernel (AIO). Offsets and lengths of
// reads must be multiples of `alignment`, a power of two.
struct DirectFile {
  int fd = -1;
  size_t alignment = 1;
};

// A direct read that may begin: from `fd`, or through the page cache after all if that is -1.
// `is_good`, if it is set, says after the read whether the bytes can be used; it is called once.
struct DirectRead {
  int fd = -1;
  std::function<bool()> is_good{};
};

class Source {
 public:
  // The file's properties when it was opened.
  struct Facts {
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    uid_t owner = 0;  // the user who may change the file
    uint64_t device = 0;  // of a local file, like its inode
    uint64_t inode = 0;
  };
  // Called without an error when the range can be read.
  using Prepared = std::function<void(std::exception_ptr error)>;

  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Returns the path, for messages and for the names of files beside it.
  [[nodiscard]] const std::string& path() const { return path_; }
  // Returns an identifier of this version of a remote file, which has no local path and so no files
  // beside it. Returns "" for a local file, or if the server does not tell versions apart.
  [[nodiscard]] virtual std::string identity() const { return ""; }
  [[nodiscard]] uint64_t size() const { return facts_.size; }
  [[nodiscard]] int64_t mtime_ns() const { return facts_.mtime_ns; }
  [[nodiscard]] uid_t owner() const { return facts_.owner; }
  [[nodiscard]] const Facts& facts() const { return facts_; }

  // Returns whether a read of the range probably finds all of it in memory.
  [[nodiscard]] virtual bool is_cached(uint64_t offset, size_t size) const = 0;

  // Fills the parts from `offset` on, one after the other, if that is possible without waiting;
  // returns whether it did. Unless is_cached(), this may make the kernel fetch the range.
  using Parts = std::span<const std::span<std::byte>>;
  static constexpr size_t kPartsMax = 64;
  [[nodiscard]] virtual bool read_now(uint64_t offset, Parts parts) const = 0;

  // Returns whether read_now() can succeed at all. Many network file systems, and FUSE, do not
  // support reads that never wait; there a thread that may wait reads even cached bytes.
  [[nodiscard]] virtual bool reads_now() const { return true; }

  // Fills `target` from `offset`, and waits as long as it takes. Throws StorageError, also if the
  // source ends before the range does.
  virtual void read_fully(uint64_t offset, std::span<std::byte> target) const = 0;

  // Returns whether read_fully() waits for a local disk at most.
  [[nodiscard]] virtual bool is_near(uint64_t /*offset*/, size_t /*size*/) const { return true; }
  // Starts to download a range that is far. `prepared` runs once, at any time, on any thread, and
  // does not block. prepare() throws only if `prepared` will not run.
  enum class Urgency { kSomeoneWaits, kBackground };
  virtual void prepare(uint64_t /*offset*/, size_t /*size*/, Urgency /*urgency*/,
                       Prepared prepared) const {
    prepared(nullptr);
  }
  // Fetches the range again after a checksum mismatch. Sources without a remote do what prepare()
  // does.
  [[nodiscard]] virtual bool can_refetch() const { return false; }
  virtual void refetch(uint64_t /*offset*/, size_t /*size*/, Prepared prepared) const {
    prepared(nullptr);
  }

  // Advice: the range will be read soon.
  virtual void will_need(uint64_t /*offset*/, size_t /*size*/) const {}
  // Advice: the range will not be read again, and its memory may be freed.
  virtual void drop_cached(uint64_t /*offset*/, uint64_t /*size*/) const {}
  // Returns whether will_need() starts asynchronous reads of many ranges at once, into the page
  // cache, where read_fully() finds them.
  [[nodiscard]] virtual bool reads_ahead() const { return false; }

  // Returns the descriptor for direct reads of near bytes; nullptr if there is none.
  [[nodiscard]] virtual const DirectFile* direct() const { return nullptr; }
  // Begins a direct read of near bytes, of a source that has direct().
  [[nodiscard]] virtual DirectRead begin_direct(uint64_t /*offset*/, size_t /*size*/) const {
    return {.fd = direct()->fd};
  }

  // The same as read_now(), but never starts a fetch.
  [[nodiscard]] bool read_cached(uint64_t offset, std::span<std::byte> target,
                                 std::span<std::byte> trailer = {}) const {
    const size_t size = target.size() + trailer.size();
    const std::array<std::span<std::byte>, 2> parts{target, trailer};
    return size == 0 || (is_cached(offset, size) && read_now(offset, parts));
  }

  [[nodiscard]] size_t alignment() const {
    const DirectFile* const file = direct();
    return file != nullptr ? file->alignment : 1;
  }
  [[nodiscard]] uint64_t align_down(uint64_t offset) const { return offset & ~(alignment() - 1); }
  [[nodiscard]] uint64_t align_up(uint64_t offset) const {
    return align_down(offset + alignment() - 1);
  }

 protected:
  Source(std::string path, Facts facts) : path_(std::move(path)), facts_(facts) {}

 private:
  const std::string path_;
  const Facts facts_;
};

// Thrown in a NearOnly thread that needs far bytes; no failure.
class FarAway : public std::exception {
 public:
  // `is_damaged`: the range is near, but damaged, and has to be fetched again.
  FarAway(const Source& file, uint64_t offset, size_t size, bool is_damaged = false)
      : file_(&file), offset_(offset), size_(size), is_damaged_(is_damaged) {}

  [[nodiscard]] const char* what() const noexcept override { return "far away"; }
  [[nodiscard]] bool is_damaged() const { return is_damaged_; }

  // Calls Source::prepare(), for a caller that waits for the bytes.
  void bring(Source::Prepared prepared) const {
    file_->prepare(offset_, size_, Source::Urgency::kSomeoneWaits, std::move(prepared));
  }
  // Starts the download for a caller that goes on without the bytes.
  void will_need() const { file_->will_need(offset_, size_); }

 private:
  const Source* file_;
  uint64_t offset_;
  size_t size_;
  bool is_damaged_;
};

// While this object lives, its thread does not wait for downloads. May be nested.
class NearOnly {
 public:
  NearOnly() : before_(std::exchange(is_here_, true)) {}
  NearOnly(const NearOnly&) = delete;
  NearOnly& operator=(const NearOnly&) = delete;
  ~NearOnly() { is_here_ = before_; }

  [[nodiscard]] static bool is_here() { return is_here_; }

 private:
  static inline thread_local bool is_here_ = false;
  const bool before_;
};

// Runs `begin` with a callback, and waits for it. Throws the callback's error, and Interrupted.
template <typename Begin> void wait_until_prepared(Begin begin) {
  const auto promise = std::make_shared<std::promise<void>>();
  auto coming = promise->get_future();
  begin([promise](const std::exception_ptr& error) {
    if (error) return promise->set_exception(error);
    promise->set_value();
  });
  while (coming.wait_for(kWaitCheckInterval) != std::future_status::ready) check_wait();
  coming.get();
}

// Fetches a damaged range again from the remote, where it may be intact, and waits. Returns false
// if the source has no remote; throws the error if the download fails, and Interrupted.
inline bool refetch_and_wait(const Source& file, uint64_t offset, uint64_t size) {
  constexpr uint64_t kSizeAtOnce = uint64_t{256} << 20;
  if (!file.can_refetch() || offset >= file.size()) return false;
  if (NearOnly::is_here()) throw FarAway(file, offset, static_cast<size_t>(size), true);
  const uint64_t end = offset + std::min(size, file.size() - offset);
  for (; offset < end; offset += kSizeAtOnce) {
    const auto some = static_cast<size_t>(std::min(end - offset, kSizeAtOnce));
    wait_until_prepared(
        [&](Source::Prepared prepared) { file.refetch(offset, some, std::move(prepared)); });
  }
  return true;
}

// Runs `work`, which throws `Wrong` if bytes of the range are damaged; then fetches the range
// again, if the source can, and runs `work` once more.
template <typename Wrong = ChecksumError, typename Work>
auto with_second_try(const Source& file, uint64_t offset, uint64_t size, Work work) {
  try {
    return work();
  } catch (const Wrong&) {
    if (!refetch_and_wait(file, offset, size)) throw;
  }
  return work();
}

// Opens the source that a path names. Throws StorageError.
using OpenSource = std::function<std::unique_ptr<const Source>(const std::string& path)>;

}  // namespace ffrfs
