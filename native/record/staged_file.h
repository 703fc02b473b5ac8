// A file on its way to its name: it appears there at publish(), whole and on disk, or
// never, and what stood there stays until then.
//
// Its bytes lie in a file without a name (O_TMPFILE), which the kernel drops with the
// descriptor, however we end. Where the file system has no such files they lie under
// ".NAME.XXXXXXXXXXXXXXXX.partial" beside the target, which only a SIGKILL leaves behind; the next
// command that writes there removes it, since it is not locked then (ffrfs/files/leftovers.py).
//
// write() may be called from any thread, the rest from one at a time.

#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/file_descriptor.h"

namespace ffrfs {

// What a symbolic link of the target's name means: the file that it leads to, or, for a name
// that the user has not chosen, perhaps a trap.
enum class Links { kFollow, kRefuse };

// What becomes of a file that has the name when another is to get it.
enum class Namesake { kReplaced, kKept };

class StagedFile {
 public:
  // Throws StorageError: no such folder, no permission, or what is there is no regular file
  // (a folder, a device, a link that is refused), which a rename would bury.
  explicit StagedFile(std::string path, Links links = Links::kFollow);
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;
  ~StagedFile() { discard(); }

  [[nodiscard]] const std::string& path() const { return path_; }

  // Makes room on the disk for [offset, offset + size), which will be written: a full disk
  // shows at once, and the writing is faster. Throws StorageError.
  void reserve(uint64_t offset, uint64_t size);

  // All of `bytes` at `offset`. Throws StorageError.
  void write(uint64_t offset, std::span<const std::byte> bytes);

  // Syncs the bytes, gives the file its name and syncs that. Throws StorageError (EEXIST: a
  // namesake is kept); call discard() then.
  void publish(Namesake namesake = Namesake::kReplaced);

  // Drops the bytes unless they are published. The object is of no use afterwards.
  void discard() noexcept;

 private:
  void refuse_irregular_target(Links links) const;
  void open_staging();
  void rename_to_name();
  [[nodiscard]] bool link_name();
  [[nodiscard]] bool link_as(const std::string& name) const;
  void write_back(size_t size);

  const std::string path_;
  const pid_t owner_;
  std::string name_;  // in folder_
  FileDescriptor folder_;
  FileDescriptor fd_;
  std::string staging_name_;  // empty: the bytes have no name
  std::atomic<uint64_t> written_size_ = 0;
};

}  // namespace ffrfs
