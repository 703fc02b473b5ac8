// Writes one FFRecord file (its layout: docs/format.md).
//
//   [ header room: 12 + 12n ][ record 0 ][ record 1 ] ... [ record n - 1 ]
//     written last, by finish()          ^ appended in order
//
// The file appears under its name at finish(), whole and on disk, or never
// (staged_file.h). After an error of the disk or of a file to append the writer is
// closed and nothing is left. Small records are gathered; memory is 12 bytes a record,
// 4 for each 1 MiB of large ones, and a fixed buffer.
//
// Any number of threads may call; they take turns.
// Not here: what the records mean (ffrfs/folder).

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/error.h"
#include "record/chunk_checksums.h"
#include "record/file_list.h"
#include "record/file_packer.h"
#include "record/staged_file.h"

namespace ffrfs {

// More or fewer records than were announced, or more than a file can hold.
struct RecordCountError : Error {
  using Error::Error;
  [[nodiscard]] const char* kind() const override { return "RecordCountError"; }
};

// The writer is finished or aborted.
struct WriterClosedError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

class Writer {
 public:
  // Announces `count` records. Throws StorageError, RecordCountError.
  Writer(const std::string& path, uint64_t count);

  [[nodiscard]] uint64_t count() const { return count_; }      // announced
  [[nodiscard]] uint64_t written() const { return written_; }  // so far; never waits

  // Throws RecordCountError (the writer can still be finished), StorageError.
  void append(std::span<const std::byte> record);

  // One record, of the bytes that `produce` puts into the sink it is given. It runs on this
  // thread and must not call the writer; what it throws comes out, and closes the writer.
  using Sink = std::function<void(std::span<const std::byte>)>;
  void append_pieces(const std::function<void(const Sink&)>& produce);

  // Each file becomes a record. As FilePacker::run; RecordCountError as append().
  void append_files(const FileList& files, size_t jobs, const FilePacker::Tick& tick);

  // As append_pieces(), for a last record that tells of those before it: `produce` is also
  // given what it needs. RecordCountError unless it is the last.
  struct Before {
    uint64_t end = 0;  // where the last record begins
    const ChunkChecksums& chunks;
    std::span<const uint32_t> header_checksums;  // of the finished file (header_checksums.h)
  };
  void append_last(const std::function<void(const Sink&, const Before&)>& produce);

  // Throws RecordCountError if records are missing, StorageError (without `replace` EEXIST, if
  // something has the name by now). Closed in any case.
  void finish(bool replace = true);

  // Leaves nothing behind. Harmless on a closed writer, and what the destructor does.
  void abort();

 private:
  class Record;

  void check_open(uint64_t more) const;
  void write(std::span<const std::byte> bytes);
  void flush();
  void add(uint64_t begin, uint32_t crc);
  void write_header();

  const std::string path_;
  const uint64_t count_;
  std::atomic<uint64_t> written_ = 0;

  std::mutex mutex_;                  // of all below
  std::unique_ptr<StagedFile> file_;  // null: closed
  std::unique_ptr<std::byte[]> buffer_;
  size_t buffered_size_ = 0;  // the bytes before end_ that are still in buffer_
  uint64_t end_ = 0;          // where the next bytes go
  std::vector<uint32_t> checksums_;
  std::vector<uint64_t> offsets_;
  ChunkChecksums chunks_;
};

}  // namespace ffrfs
