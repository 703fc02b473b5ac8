// Where a file of records gets its bytes from: a file of this machine (local_file.h), or what
// is filled from far away while it is read.
//
//   read_cached() ── all of it is in memory?     never waits
//   prepare() ────── brings it near, says when   never waits, for the read queue
//   read_fully() ─── waits, whatever it takes
//
// A thread that must not wait says so (NearOnly): there read_fully() throws FarAway in the place of
// waiting for what is not near.
//
// No byte of it is trusted: checksums are for those who read (shard/record_checksum.h).
// A source is immutable after opening but for what it keeps near, which it guards itself: any
// number of threads read.

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

namespace ffrfs {

// A descriptor that bypasses the page cache, which the kernel can read from by itself. Offsets
// and lengths of its reads are multiples of `alignment`, a power of two.
struct DirectFile {
  int fd = -1;
  size_t alignment = 1;
};

class Source {
 public:
  // As they were when it was opened.
  struct Facts {
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    uid_t owner = 0;  // who may change it
  };
  // Without an error: the range can be read now.
  using Prepared = std::function<void(std::exception_ptr error)>;

  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // For messages, and the names of files beside it.
  [[nodiscard]] const std::string& path() const { return path_; }
  // What tells this version of it from all others, where its path does not lie on this machine,
  // and so no file beside it; "": it does, or its server tells no versions apart.
  [[nodiscard]] virtual std::string identity() const { return ""; }
  [[nodiscard]] uint64_t size() const { return facts_.size; }
  [[nodiscard]] int64_t mtime_ns() const { return facts_.mtime_ns; }
  [[nodiscard]] uid_t owner() const { return facts_.owner; }

  // Whether a read of that range is likely to find all of it in memory.
  [[nodiscard]] virtual bool is_cached(uint64_t offset, size_t size) const = 0;

  // Fills these from `offset` on, one after the other, if that can be done without waiting;
  // false if not. Unless is_cached() it may start to fetch the range.
  using Parts = std::span<const std::span<std::byte>>;
  static constexpr size_t kPartsMax = 64;
  [[nodiscard]] virtual bool read_now(uint64_t offset, Parts parts) const = 0;

  // Whether read_now() can be had at all. Many network file systems, and FUSE, cannot read without
  // perhaps waiting, so what is_cached() there takes a thread that may wait.
  [[nodiscard]] virtual bool reads_now() const { return true; }

  // Fills `target` from `offset`, waiting as long as it takes. Throws StorageError, also when
  // the source ends before.
  virtual void read_fully(uint64_t offset, std::span<std::byte> target) const = 0;

  // Whether read_fully() waits for a disk at most.
  [[nodiscard]] virtual bool is_near(uint64_t /*offset*/, size_t /*size*/) const { return true; }
  // Starts to bring a range near that is not. `prepared` runs once, at any time, on any
  // thread, and does not wait. Throws only if it will not run.
  enum class Urgency { kSomeoneWaits, kBackground };
  virtual void prepare(uint64_t /*offset*/, size_t /*size*/, Urgency /*urgency*/,
                       Prepared prepared) const {
    prepared(nullptr);
  }
  // Brings a range near anew, as what is there cannot be what was written; if it can. Else as
  // prepare().
  [[nodiscard]] virtual bool can_refetch() const { return false; }
  virtual void refetch(uint64_t /*offset*/, size_t /*size*/, Prepared prepared) const {
    prepared(nullptr);
  }

  // Advice: the range is read soon.
  virtual void will_need(uint64_t /*offset*/, size_t /*size*/) const {}
  // Advice: the range is not read again; memory that it has taken may go.
  virtual void drop_cached(uint64_t /*offset*/, uint64_t /*size*/) const {}
  // Whether will_need() starts a read that does not wait, of many ranges at once, into memory
  // where read_fully() finds them.
  [[nodiscard]] virtual bool reads_ahead() const { return false; }

  // To read what is near; nullptr: there is none.
  [[nodiscard]] virtual const DirectFile* direct() const { return nullptr; }

  // As read_now(), and nothing is fetched.
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

// No error: what a thread needs that does not wait for it.
class FarAway : public std::exception {
 public:
  // `is_damaged`: it is near, and has to be brought anew.
  FarAway(const Source& file, uint64_t offset, size_t size, bool is_damaged = false)
      : file_(&file), offset_(offset), size_(size), is_damaged_(is_damaged) {}

  [[nodiscard]] const char* what() const noexcept override { return "far away"; }
  [[nodiscard]] bool is_damaged() const { return is_damaged_; }

  // As Source::prepare(), for one who waits.
  void bring(Source::Prepared prepared) const {
    file_->prepare(offset_, size_, Source::Urgency::kSomeoneWaits, std::move(prepared));
  }
  // For one who does without it until it is there.
  void will_need() const { file_->will_need(offset_, size_); }

 private:
  const Source* file_;
  uint64_t offset_;
  size_t size_;
  bool is_damaged_;
};

// While it lives, its thread does not wait for what is far away. May be nested.
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

// What is near may be damaged, and what is far may not. False: the source has nothing far. Waits;
// throws why it could not be brought.
inline bool refetch_and_wait(const Source& file, uint64_t offset, uint64_t size) {
  constexpr uint64_t kSizeAtOnce = uint64_t{256} << 20;
  if (!file.can_refetch() || offset >= file.size()) return false;
  if (NearOnly::is_here()) throw FarAway(file, offset, static_cast<size_t>(size), true);
  const uint64_t end = offset + std::min(size, file.size() - offset);
  for (; offset < end; offset += kSizeAtOnce) {
    const auto promise = std::make_shared<std::promise<void>>();
    auto coming = promise->get_future();
    const auto some = static_cast<size_t>(std::min(end - offset, kSizeAtOnce));
    file.refetch(offset, some, [promise](const std::exception_ptr& error) {
      if (error) return promise->set_exception(error);
      promise->set_value();
    });
    coming.get();
  }
  return true;
}

// Runs `work`, which throws `Wrong` where bytes of that range are not what was written; then once
// more, if they could be brought anew.
template <typename Wrong = ChecksumError, typename Work>
auto with_second_try(const Source& file, uint64_t offset, uint64_t size, Work work) {
  try {
    return work();
  } catch (const Wrong&) {
    if (!refetch_and_wait(file, offset, size)) throw;
  }
  return work();
}

// Opens what a path names. Throws StorageError.
using OpenSource = std::function<std::unique_ptr<const Source>(const std::string& path)>;

}  // namespace ffrfs
