// A regular file of this machine: a buffered descriptor for what the page cache holds, and
// one with O_DIRECT, where the file system takes it, for what it does not.

#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/file_descriptor.h"
#include "io/source.h"

namespace ffrfs {

class LocalFile final : public Source {
 public:
  // Throws StorageError.
  explicit LocalFile(const std::string& path) : LocalFile(path, open(path)) { open_direct(); }
  // What a descriptor of ours is of, through the page cache alone. `path` is for messages.
  LocalFile(const std::string& path, FileDescriptor descriptor);

  // By cachestat(2), unless all reads of late have found what they wanted; false where the file
  // system cannot tell.
  [[nodiscard]] bool is_cached(uint64_t offset, size_t size) const override;
  [[nodiscard]] bool read_now(uint64_t offset, Parts parts) const override;
  [[nodiscard]] bool reads_now() const override {
    return reads_now_.load(std::memory_order_relaxed);
  }
  void read_fully(uint64_t offset, std::span<std::byte> target) const override;
  void will_need(uint64_t offset, size_t size) const override;
  // Lets go of what the page cache has of it; what no disk has yet stays.
  void drop_cached(uint64_t offset, uint64_t size) const override;
  [[nodiscard]] bool reads_ahead() const override { return reads_ahead_; }
  // nullptr where O_DIRECT is refused: then reads go through the page cache.
  [[nodiscard]] const DirectFile* direct() const override {
    return direct_descriptor_.valid() ? &direct_ : nullptr;
  }

 private:
  struct Opened {
    FileDescriptor descriptor;
    struct stat info {};
  };

  LocalFile(const std::string& path, Opened opened);
  void open_direct();
  [[nodiscard]] static Opened open(const std::string& path);
  [[nodiscard]] static Opened check(Opened opened, const std::string& path);
  [[nodiscard]] int fd() const { return buffered_.get(); }

  // Reads in a row that found all in the page cache.
  mutable std::atomic<uint32_t> cached_run_{0};
  mutable std::atomic<bool> cachestat_works_{true};
  mutable std::atomic<bool> reads_now_{true};
  FileDescriptor buffered_;
  const bool reads_ahead_;
  FileDescriptor direct_descriptor_;
  DirectFile direct_;
};

[[nodiscard]] std::unique_ptr<const Source> open_local_file(const std::string& path);

}  // namespace ffrfs
