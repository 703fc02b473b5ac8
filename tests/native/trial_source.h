// A source in memory that is as late, as far away and as broken as a test wants, in place of
// a slow or failing disk, or of a server.

#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/error.h"
#include "io/source.h"
#include "scratch.h"

namespace ffrfs::test {

// A test changes a source through this, whoever owns the source. Any thread may call it.
class Trial {
 public:
  explicit Trial(Bytes content) : content_(std::move(content)) {}

  // From now on bytes from `offset` on are far away, until they have arrived.
  void put_far(uint64_t offset) {
    const std::lock_guard lock(mutex_);
    far_from_ = offset;
    near_.clear();
  }
  // From now on each read takes this long.
  void delay(std::chrono::milliseconds time) {
    const std::lock_guard lock(mutex_);
    delay_ = time;
  }
  // The next reads fail.
  void fail(int count, int error_number = EIO) {
    const std::lock_guard lock(mutex_);
    failures_ = count;
    failure_ = error_number;
  }
  // Removes all bytes from `size` on.
  void cut(size_t size) {
    change([&](Bytes& content) { content.resize(size); });
  }
  void change(const std::function<void(Bytes&)>& how) {
    const std::lock_guard lock(mutex_);
    how(content_);
  }

  // Return how many ranges were requested and have not arrived.
  [[nodiscard]] size_t asked_count() const {
    const std::lock_guard lock(mutex_);
    return asked_.size();
  }
  [[nodiscard]] size_t asked_in_all() const {
    const std::lock_guard lock(mutex_);
    return asked_in_all_;
  }
  // Return the offsets of the ranges announced by will_need(), in that order.
  [[nodiscard]] std::vector<uint64_t> needed() const {
    const std::lock_guard lock(mutex_);
    return needed_;
  }
  // Lets all requested ranges arrive, or fail, on a thread of its own.
  void arrive(const std::exception_ptr& error = nullptr) {
    std::vector<Asked> arrived;
    {
      const std::lock_guard lock(mutex_);
      arrived.swap(asked_);
      for (const Asked& range : arrived) {
        if (!error) near_.emplace_back(range.offset, range.offset + range.size);
      }
    }
    std::jthread([&] {
      for (const Asked& range : arrived) range.prepared(error);
    });
  }

 private:
  friend class TrialSource;
  struct Asked {
    uint64_t offset;
    size_t size;
    Source::Prepared prepared;
  };

  [[nodiscard]] bool is_near(uint64_t offset, size_t size) const {
    const std::lock_guard lock(mutex_);
    if (offset + size <= far_from_) return true;
    return std::ranges::any_of(near_, [&](const auto& range) {
      return range.first <= offset && offset + size <= range.second;
    });
  }

  void ask(Asked range) {
    const std::lock_guard lock(mutex_);
    asked_.push_back(std::move(range));
    ++asked_in_all_;
  }

  void need(uint64_t offset) {
    const std::lock_guard lock(mutex_);
    needed_.push_back(offset);
  }

  void read(const std::string& path, uint64_t offset, std::span<std::byte> target) {
    std::this_thread::sleep_for([this] {
      const std::lock_guard lock(mutex_);
      return delay_;
    }());
    const std::lock_guard lock(mutex_);
    if (failures_ > 0) {
      --failures_;
      throw StorageError(failure_, path, "cannot read at offset " + std::to_string(offset));
    }
    if (offset > content_.size() || target.size() > content_.size() - offset) {
      throw StorageError(EIO, path, "ends at offset " + std::to_string(content_.size()));
    }
    if (!target.empty()) std::memcpy(target.data(), content_.data() + offset, target.size());
  }

  mutable std::mutex mutex_;
  Bytes content_;
  std::chrono::milliseconds delay_{0};
  int failures_ = 0;
  int failure_ = EIO;
  uint64_t far_from_ = UINT64_MAX;
  std::vector<std::pair<uint64_t, uint64_t>> near_;  // ranges that have arrived: from, to
  std::vector<Asked> asked_;
  size_t asked_in_all_ = 0;
  std::vector<uint64_t> needed_;
};

class TrialSource final : public Source {
 public:
  TrialSource(const std::string& path, std::shared_ptr<Trial> trial)
      : Source(path, {.size = trial->content_.size()}), trial_(std::move(trial)) {}

  [[nodiscard]] bool is_cached(uint64_t, size_t) const override { return false; }
  [[nodiscard]] bool read_now(uint64_t, Parts) const override { return false; }
  void read_fully(uint64_t offset, std::span<std::byte> target) const override {
    trial_->read(path(), offset, target);
  }
  [[nodiscard]] bool is_near(uint64_t offset, size_t size) const override {
    return trial_->is_near(offset, size);
  }
  void prepare(uint64_t offset, size_t size, Urgency, Prepared prepared) const override {
    trial_->ask({offset, size, std::move(prepared)});
  }
  [[nodiscard]] bool can_refetch() const override { return true; }
  void will_need(uint64_t offset, size_t) const override { trial_->need(offset); }

 private:
  const std::shared_ptr<Trial> trial_;
};

// Opens this source, whatever the path.
inline OpenSource open_trial(std::shared_ptr<Trial> trial) {
  return [trial = std::move(trial)](const std::string& path) {
    return std::make_unique<const TrialSource>(path, trial);
  };
}

}  // namespace ffrfs::test
