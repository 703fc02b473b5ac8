// A file that appears under its name at publish(), complete and synced, or never; a file of that
// name stays until then.
//
// Its bytes are in a file without a name (O_TMPFILE), which the kernel frees with the descriptor,
// however the process ends. If the file system does not support that, they are in
// ".NAME.XXXXXXXXXXXXXXXX.partial" beside the target, which only a SIGKILL leaves behind; the next
// command that writes there removes it, because it is no longer locked (ffrfs/files/leftovers.py).
//
// write() is thread-safe; the other functions are for one thread at a time.

#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/file_descriptor.h"

namespace ffrfs {

// Whether a symbolic link with the target's name is followed or refused: if the user has not chosen
// the name, the link may be a trap.
enum class Links { kFollow, kRefuse };

// Whether a file that has the name already is replaced.
enum class Namesake { kReplaced, kKept };

class StagedFile {
 public:
  // Throws StorageError: no such directory, no permission, or the name belongs to something that a
  // rename must not replace (a directory, a device, a refused link).
  explicit StagedFile(std::string path, Links links = Links::kFollow);
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;
  ~StagedFile() { discard(); }

  [[nodiscard]] const std::string& path() const { return path_; }

  // Reserves disk space for [offset, offset + size), which will be written: so a full disk is
  // noticed at once, and writing is faster. Throws StorageError.
  void reserve(uint64_t offset, uint64_t size);

  // Writes all of `bytes` at `offset`. Throws StorageError.
  void write(uint64_t offset, std::span<const std::byte> bytes);

  // Syncs the bytes, gives the file its name and syncs the directory. Throws StorageError (EEXIST
  // if a file of that name is kept); then discard() must be called.
  void publish(Namesake namesake = Namesake::kReplaced);

  // Drops the bytes unless they were published. The object cannot be used afterwards.
  void discard() noexcept;

 private:
  void refuse_irregular_target(Links links) const;
  void open_staging();
  void rename_to_name(Namesake namesake);
  [[nodiscard]] bool link_name();
  [[nodiscard]] bool link_as(const std::string& name) const;
  void write_back(size_t size);

  const std::string path_;
  const pid_t owner_;
  std::string name_;  // in folder_
  FileDescriptor folder_;
  FileDescriptor fd_;
  std::string staging_name_;  // empty: the file has no name
  std::atomic<uint64_t> written_size_ = 0;
};

}  // namespace ffrfs
