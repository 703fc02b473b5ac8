// Copies whole files, one after the other, into a file that is being written.
//
//   files       | a | b |    c    | d | e |        f (large)        | g |
//   batches     |-- 1 --|--- 2 ---|-- 3 --|----------- 4 -----------|- 5
//   target   ...|=======|=========|=======|=========================|=====
//
// All sizes are known, and so all positions: each thread takes the next batch of files (about 1 MiB
// together, or one larger file), reads them, checks that they have not changed since they were
// listed, and writes them to their position, independently of the others. Memory: one buffer of 1
// MiB a thread, and 4 bytes a file.
//
// Not here: where the list of files comes from (entries/entry_files.h).

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "record/chunk_checksums.h"
#include "record/file_list.h"
#include "record/staged_file.h"

namespace ffrfs {

class FolderInUse;  // each thread's open directory (file_packer.cc)

class FilePacker {
 public:
  // Called with the files and bytes done so far. An exception from it stops the work.
  using Tick = std::function<void(uint64_t files, uint64_t bytes)>;

  // The first file goes to `offset` of `target`; the sum of all sizes must not overflow. It is
  // record `first_record`, under which `chunks` has the large files; their checksums are stored
  // there.
  FilePacker(const FileList& files, StagedFile& target, uint64_t offset, ChunkChecksums& chunks,
             uint64_t first_record)
      : files_(files),
        target_(target),
        chunks_(chunks),
        first_record_(first_record),
        count_(files.count()),
        next_offset_(offset),
        checksums_(count_) {}

  // Copies all files with `jobs` threads and returns the CRC-32 of each. `tick` is called from this
  // thread, about ten times a second and at the end. Throws the error of the first bad file in the
  // list: PackError (it cannot be packed, or has changed since it was listed), or StorageError,
  // which names that file or the target.
  [[nodiscard]] std::vector<uint32_t> run(size_t jobs, const Tick& tick);

 private:
  struct Batch {
    size_t first = 0;
    size_t end = 0;
    uint64_t offset = 0;  // in the target
  };

  void work();
  [[nodiscard]] std::optional<Batch> take();
  void copy_small(const Batch& batch, std::span<std::byte> buffer, FolderInUse& folder,
                  size_t& index);
  void copy_large(const Batch& batch, std::span<std::byte> buffer, FolderInUse& folder);
  void fail(size_t index);
  void wait(const Tick& tick);

  const FileList& files_;
  StagedFile& target_;
  ChunkChecksums& chunks_;
  const uint64_t first_record_;
  const size_t count_;

  std::mutex mutex_;
  std::condition_variable idle_;
  size_t next_ = 0;  // the first file that was not taken
  uint64_t next_offset_;  // its offset in the target
  size_t working_ = 0;  // threads
  std::exception_ptr error_;  // of file number stop_

  // Files from this one on are not copied, because this one has failed.
  std::atomic<size_t> stop_ = SIZE_MAX;
  std::atomic<uint64_t> files_done_ = 0;
  std::atomic<uint64_t> bytes_done_ = 0;
  std::vector<uint32_t> checksums_;  // each thread writes the checksums of its own files
};

}  // namespace ffrfs
