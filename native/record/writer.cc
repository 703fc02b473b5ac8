#include "record/writer.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "io/checked.h"
#include "io/crc.h"
#include "io/error.h"
#include "io/little_endian.h"

namespace ffrfs {
namespace {

constexpr uint64_t kFixedSize = 12;      // checksum and n
constexpr uint64_t kPerRecordSize = 12;  // u32 checksum and i64 offset
constexpr uint64_t kLargestOffset = std::numeric_limits<int64_t>::max();
constexpr size_t kBufferSize = size_t{1} << 20;

uint64_t header_size(const std::string& path, uint64_t count) {
  const auto tables_size = checked_mul(count, kPerRecordSize);
  const auto size = tables_size ? checked_add(*tables_size, kFixedSize) : std::nullopt;
  if (!size || *size > kLargestOffset) {
    throw RecordCountError(path + ": " + std::to_string(count) +
                           " records are more than a file can hold");
  }
  return *size;
}

}  // namespace

Writer::Writer(const std::string& path, uint64_t count)
    : path_(path), count_(count), end_(header_size(path, count)) {
  buffer_ = std::make_unique_for_overwrite<std::byte[]>(kBufferSize);
  file_ = std::make_unique<StagedFile>(path);
}

void Writer::check_open(uint64_t more) const {
  if (!file_) throw WriterClosedError(path_ + ": the writer is closed");
  if (more > count_ - written_) {
    throw RecordCountError(path_ + ": more records than the " + std::to_string(count_) +
                           " that were announced");
  }
}

void Writer::append(std::span<const std::byte> record) {
  const std::lock_guard lock(mutex_);
  check_open(1);
  try {
    if (record.size() > kBufferSize - buffered_size_) flush();
    if (record.size() > kBufferSize) {
      file_->write(end_, record);
    } else if (!record.empty()) {
      std::memcpy(buffer_.get() + buffered_size_, record.data(), record.size());
      buffered_size_ += record.size();
    }
    add(record.size(), crc32(record));
  } catch (...) {
    file_.reset();
    throw;
  }
}

void Writer::append_files(std::span<const FileToPack> files, size_t jobs,
                          const FilePacker::Tick& tick) {
  const std::lock_guard lock(mutex_);
  check_open(files.size());
  try {
    uint64_t end = end_;
    for (const FileToPack& file : files) {
      const auto sum = checked_add(end, file.size);
      if (!sum || *sum > kLargestOffset) throw StorageError(EFBIG, path_, "cannot write");
      end = *sum;
    }
    flush();
    file_->reserve(end_, end - end_);
    FilePacker packer(files, *file_, end_);
    const auto checksums = packer.run(jobs, tick);
    for (size_t index = 0; index < files.size(); ++index) {
      add(files[index].size, checksums[index]);
    }
  } catch (...) {
    file_.reset();
    throw;
  }
}

void Writer::add(uint64_t size, uint32_t crc) {
  checksums_.push_back(crc);
  offsets_.push_back(end_);
  end_ += size;
  ++written_;
}

void Writer::flush() {
  file_->write(end_ - buffered_size_, std::span(buffer_.get(), buffered_size_));
  buffered_size_ = 0;
}

void Writer::write_header() {
  const auto checksums = std::as_bytes(std::span(checksums_));
  const auto offsets = std::as_bytes(std::span(offsets_));
  std::array<std::byte, kFixedSize> fixed;
  store_le<uint64_t>(fixed, 4, count_);
  uint32_t crc = crc32(std::span(fixed).subspan(4));
  crc = crc32(checksums, crc);
  crc = crc32(offsets, crc);
  store_le<uint32_t>(fixed, 0, crc);
  file_->write(0, fixed);
  file_->write(kFixedSize, checksums);
  file_->write(kFixedSize + checksums.size(), offsets);
}

void Writer::finish() {
  const std::lock_guard lock(mutex_);
  check_open(0);
  try {
    if (written_ != count_) {
      throw RecordCountError(path_ + ": " + std::to_string(written_) + " of the " +
                             std::to_string(count_) +
                             " announced records were written; no file was made");
    }
    flush();
    write_header();
    file_->publish();
  } catch (...) {
    file_.reset();
    throw;
  }
  file_.reset();
}

void Writer::abort() {
  const std::lock_guard lock(mutex_);
  file_.reset();
}

}  // namespace ffrfs
