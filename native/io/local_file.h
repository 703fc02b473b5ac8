// A regular local file: a buffered descriptor for reads from the page cache, and an O_DIRECT
// descriptor, if the file system supports it, for all other reads.

#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "io/file_descriptor.h"
#include "io/source.h"

namespace ffrfs {

class LocalFile final : public Source {
 public:
  // Throws StorageError.
  explicit LocalFile(const std::string& path) : LocalFile(path, open(path)) { open_direct(); }
  // Takes an open descriptor and reads it only through the page cache. `path` is for messages.
  LocalFile(const std::string& path, FileDescriptor descriptor);
  // Opens the file for direct reads too, unless its file system or a filter of system calls
  // refuses. No other thread may use the object yet.
  void open_direct();

  // Asks cachestat(2), unless all recent reads were fully cached. Returns false if the file system
  // cannot tell.
  [[nodiscard]] bool is_cached(uint64_t offset, size_t size) const override;
  [[nodiscard]] bool read_now(uint64_t offset, Parts parts) const override;
  [[nodiscard]] bool reads_now() const override {
    return reads_now_.load(std::memory_order_relaxed);
  }
  void read_fully(uint64_t offset, std::span<std::byte> target) const override;
  void will_need(uint64_t offset, size_t size) const override;
  // Drops the range from the page cache, except for pages that were not written back yet.
  void drop_cached(uint64_t offset, uint64_t size) const override;
  [[nodiscard]] bool reads_ahead() const override { return reads_ahead_; }
  // Returns nullptr if O_DIRECT is refused: then reads go through the page cache.
  [[nodiscard]] const DirectFile* direct() const override {
    return direct_descriptor_.valid() ? &direct_ : nullptr;
  }
  // Returns how many pages of the range are in the page cache; nullopt if the kernel does not tell.
  [[nodiscard]] std::optional<uint64_t> cached_pages(uint64_t offset, size_t size) const;

 private:
  struct Opened {
    FileDescriptor descriptor;
    struct stat info{};
  };

  LocalFile(const std::string& path, Opened opened);
  [[nodiscard]] static Opened open(const std::string& path);
  [[nodiscard]] static Opened check(Opened opened, const std::string& path);
  [[nodiscard]] int fd() const { return buffered_.get(); }

  // The number of reads in a row that were fully cached.
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
