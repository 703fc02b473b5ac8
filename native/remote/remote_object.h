// One object that a link has opened: its properties, its cache files, which blocks were read
// recently and which are requested ahead.
//
// Thread-safe; its locks are its own, and held for a few instructions.
// Not here: the messages to the fetcher (object_link.h), reading (remote_file.h).

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "remote/cached_files.h"

namespace ffrfs::remote {

class RemoteObject {
 public:
  using Clock = std::chrono::steady_clock;

  // `keeps_pages`: blocks stay in the page cache after they were read.
  RemoteObject(uint32_t number, std::string url, ObjectFacts facts,
               std::shared_ptr<const CachedFiles> files, bool keeps_pages);

  [[nodiscard]] uint32_t number() const { return number_; }
  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] const std::string& name() const { return name_; }  // for messages
  [[nodiscard]] const ObjectFacts& facts() const { return facts_; }

  [[nodiscard]] std::shared_ptr<const CachedFiles> files() const {
    const std::lock_guard lock(mutex_);
    return files_;
  }
  void set_files(std::shared_ptr<const CachedFiles> files) {
    const std::lock_guard lock(mutex_);
    files_ = std::move(files);
  }

  // Says that these blocks were requested. Without `keeps_pages`, a block leaves the page cache
  // after as many of its bytes were read as it has, and enough other blocks were read after it.
  void note_wanted(BlockRange range);
  // Says that these bytes were read. Returns true if they are the first since take_used().
  bool note_used(uint64_t offset, uint64_t size);
  [[nodiscard]] std::vector<BlockRange> take_used();

  // Returns the parts of `range` that are not requested ahead yet, and marks them so until
  // forget_ahead().
  [[nodiscard]] std::vector<BlockRange> take_ahead(BlockRange range);
  void forget_ahead(BlockRange range);

  // After a timeout, reads of these blocks fail at once for a second: the kernel asks twice.
  void note_failure(BlockRange range, std::exception_ptr error);
  [[nodiscard]] std::exception_ptr recent_failure(BlockRange range) const;

 private:
  void count_read(uint64_t block, uint64_t size);
  void leave_behind(uint64_t block);

  const uint32_t number_;
  const std::string url_;
  const std::string name_;
  const ObjectFacts facts_;
  // One bit a block.
  const std::unique_ptr<std::atomic<uint64_t>[]> used_;
  std::atomic<bool> has_used_{false};
  // How much of each requested block was read, and kWanted; null if pages stay.
  const std::unique_ptr<std::atomic<uint32_t>[]> read_sizes_;

  mutable std::mutex mutex_;  // guards all below
  std::shared_ptr<const CachedFiles> files_;
  std::set<uint64_t> ahead_;
  std::deque<uint64_t> behind_;  // blocks that were read, oldest first
  struct Failure {
    BlockRange range;
    Clock::time_point until;
    std::exception_ptr error;
  };
  std::optional<Failure> failure_;
};

}  // namespace ffrfs::remote
