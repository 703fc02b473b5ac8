// Writes one FFRecord file (its layout: docs/format.md).
//
//   [ header room: 12 + 12n ][ record 0 ][ record 1 ] ... [ record n - 1 ]
//     written last, by finish()          ^ appended in order
//
// The file appears under its name at finish(), complete and synced, or never (staged_file.h). After
// an error of the disk or of a file to append, the writer is closed and leaves nothing behind.
// Small records are gathered; memory is 12 bytes a record, 4 for each 1 MiB of large ones, and a
// fixed buffer.
//
// Thread-safe: calls are serialised.
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

  [[nodiscard]] uint64_t count() const { return count_; }  // announced
  [[nodiscard]] uint64_t written() const { return written_; }  // so far; never waits

  // Throws RecordCountError (the writer can still be finished), StorageError.
  void append(std::span<const std::byte> record);

  // Appends one record, made of the bytes that `produce` puts into its sink. It runs on this thread
  // and must not call the writer; an exception from it is passed on, and closes the writer.
  using Sink = std::function<void(std::span<const std::byte>)>;
  void append_pieces(const std::function<void(const Sink&)>& produce);

  // Appends each file as a record. Throws as FilePacker::run does; RecordCountError as append()
  // does.
  void append_files(const FileList& files, size_t jobs, const FilePacker::Tick& tick);

  // The same as append_pieces(), for a last record that describes those before it: `produce` also
  // gets the data for that. Throws RecordCountError unless it is the last record.
  struct Before {
    uint64_t end = 0;  // where the last record begins
    const ChunkChecksums& chunks;
    std::span<const uint32_t> header_checksums;  // of the finished file (header_checksums.h)
  };
  void append_last(const std::function<void(const Sink&, const Before&)>& produce);

  // Throws RecordCountError if records are missing, StorageError (without `replace` EEXIST, if the
  // name exists by now). The writer is closed in any case.
  void finish(bool replace = true);

  // Leaves nothing behind. Does nothing on a closed writer. The destructor does the same.
  void abort();

 private:
  class Record;

  void check_open(uint64_t more) const;
  template <typename Work> void attempt(const Work& work);
  void write(std::span<const std::byte> bytes);
  void flush();
  void add(uint64_t begin, uint32_t crc);
  void write_header();

  const std::string path_;
  const uint64_t count_;
  std::atomic<uint64_t> written_ = 0;

  std::mutex mutex_;  // guards all below
  std::unique_ptr<StagedFile> file_;  // null: closed
  std::unique_ptr<std::byte[]> buffer_;
  size_t buffered_size_ = 0;  // the bytes before end_ that are still in buffer_
  uint64_t end_ = 0;  // where the next bytes go
  std::vector<uint32_t> checksums_;
  std::vector<uint64_t> offsets_;
  ChunkChecksums chunks_;
};

}  // namespace ffrfs
