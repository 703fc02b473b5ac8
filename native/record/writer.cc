#include "record/writer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "io/block_checksums.h"
#include "io/checked.h"
#include "io/crc.h"
#include "io/error.h"
#include "io/little_endian.h"
#include "record/header_checksums.h"
#include "record/header_layout.h"
#include "record/index_layout.h"

namespace ffrfs {
namespace {

constexpr uint64_t kLargestOffset = std::numeric_limits<int64_t>::max();
constexpr size_t kBufferSize = size_t{1} << 20;
// Larger pieces are not worth a copy.
constexpr size_t kGatheredSizeMax = kBufferSize / 4;

uint64_t header_size(const std::string& path, uint64_t count) {
  const auto size = checked_header_size(count);
  if (!size || *size > kLargestOffset) {
    throw RecordCountError(path, std::to_string(count) + " records are more than a file can hold");
  }
  return *size;
}

}  // namespace

// A record that is being written, piece by piece.
class Writer::Record {
 public:
  explicit Record(Writer& writer, bool may_be_large = true)
      : writer_(writer), begin_(writer.end_), may_be_large_(may_be_large) {}

  void write(std::span<const std::byte> bytes) {
    crc_ = crc32(bytes, crc_);
    if (may_be_large_) chunks_.add(bytes);
    writer_.write(bytes);
  }

  void end() {
    const uint64_t number = writer_.written_;
    writer_.chunks_.add(number, writer_.end_ - begin_);
    const std::vector<uint32_t>& chunks = chunks_.values();
    if (chunks.size() > 1) {
      for (size_t i = 0; i < chunks.size(); ++i) writer_.chunks_.at(number, i) = chunks[i];
    }
    writer_.add(begin_, crc_);
  }

 private:
  Writer& writer_;
  const uint64_t begin_;
  const bool may_be_large_;  // more than one chunk
  uint32_t crc_ = 0;
  BlockChecksums chunks_{kIndexChunkSize};
};

Writer::Writer(const std::string& path, uint64_t count)
    : path_(path), count_(count), end_(header_size(path, count)) {
  buffer_ = std::make_unique_for_overwrite<std::byte[]>(kBufferSize);
  file_ = std::make_unique<StagedFile>(path);
}

void Writer::check_open(uint64_t more) const {
  if (!file_) throw WriterClosedError(path_ + ": the writer is closed");
  if (more > count_ - written_) {
    throw RecordCountError(
        path_, "more records than the " + std::to_string(count_) + " that were announced");
  }
}

// Runs `work`; an error of it closes the writer.
template <typename Work> void Writer::attempt(const Work& work) {
  try {
    work();
  } catch (...) {
    file_.reset();
    throw;
  }
}

void Writer::append(std::span<const std::byte> record) {
  const std::lock_guard lock(mutex_);
  check_open(1);
  attempt([&] {
    Record whole(*this, record.size() > kIndexChunkSize);
    whole.write(record);
    whole.end();
  });
}

void Writer::append_pieces(const std::function<void(const Sink&)>& produce) {
  const std::lock_guard lock(mutex_);
  check_open(1);
  attempt([&] {
    Record record(*this);
    produce([&record](std::span<const std::byte> bytes) { record.write(bytes); });
    record.end();
  });
}

void Writer::append_last(const std::function<void(const Sink&, const Before&)>& produce) {
  const std::lock_guard lock(mutex_);
  check_open(1);
  if (written_ + 1 != count_) {
    throw RecordCountError(path_, "record " + std::to_string(written_) + " of " +
                                      std::to_string(count_) + " is not the last");
  }
  attempt([&] {
    offsets_.push_back(end_);
    const std::vector<uint32_t> blocks = header_checksums(checksums_, offsets_);
    offsets_.pop_back();
    Record record(*this);
    produce([&record](std::span<const std::byte> bytes) { record.write(bytes); },
            {.end = end_, .chunks = chunks_, .header_checksums = blocks});
    record.end();
  });
}

void Writer::append_files(const FileList& files, size_t jobs, const FilePacker::Tick& tick) {
  const std::lock_guard lock(mutex_);
  const uint64_t count = files.count();
  check_open(count);
  attempt([&] {
    uint64_t end = end_;
    for (uint64_t index = 0; index < count; ++index) {
      const auto sum = checked_add(end, files.size(index));
      if (!sum || *sum > kLargestOffset) throw StorageError(EFBIG, path_, "cannot write");
      end = *sum;
    }
    flush();
    file_->reserve(end_, end - end_);
    for (uint64_t index = 0; index < count; ++index) {
      chunks_.add(written_ + index, files.size(index));
    }
    FilePacker packer(files, *file_, end_, chunks_, written_);
    const auto checksums = packer.run(jobs, tick);
    for (uint64_t index = 0; index < count; ++index) {
      const uint64_t begin = end_;
      end_ += files.size(index);
      add(begin, checksums[index]);
    }
  });
}

void Writer::add(uint64_t begin, uint32_t crc) {
  checksums_.push_back(crc);
  offsets_.push_back(begin);
  ++written_;
}

void Writer::write(std::span<const std::byte> bytes) {
  if (end_ > kLargestOffset - bytes.size()) throw StorageError(EFBIG, path_, "cannot write");
  const bool is_gathered = bytes.size() <= kGatheredSizeMax;
  if (!is_gathered || bytes.size() > kBufferSize - buffered_size_) flush();
  if (!is_gathered) {
    file_->write(end_, bytes);
  } else if (!bytes.empty()) {
    std::memcpy(buffer_.get() + buffered_size_, bytes.data(), bytes.size());
    buffered_size_ += bytes.size();
  }
  end_ += bytes.size();
}

void Writer::flush() {
  file_->write(end_ - buffered_size_, std::span(buffer_.get(), buffered_size_));
  buffered_size_ = 0;
}

void Writer::write_header() {
  const auto checksums = std::as_bytes(std::span(checksums_));
  const auto offsets = std::as_bytes(std::span(offsets_));
  std::array<std::byte, kHeaderFixedSize> fixed;
  store_le<uint64_t>(fixed, 4, count_);
  uint32_t crc = crc32(std::span(fixed).subspan(4));
  crc = crc32(checksums, crc);
  crc = crc32(offsets, crc);
  store_le<uint32_t>(fixed, 0, crc);
  file_->write(0, fixed);
  file_->write(kHeaderFixedSize, checksums);
  file_->write(kHeaderFixedSize + checksums.size(), offsets);
}

void Writer::finish(bool replace) {
  const std::lock_guard lock(mutex_);
  check_open(0);
  attempt([&] {
    if (written_ != count_) {
      throw RecordCountError(path_, std::to_string(written_) + " of the " + std::to_string(count_) +
                                        " announced records were written; no file was made");
    }
    flush();
    write_header();
    file_->publish(replace ? Namesake::kReplaced : Namesake::kKept);
  });
  file_.reset();
}

void Writer::abort() {
  const std::lock_guard lock(mutex_);
  file_.reset();
}

}  // namespace ffrfs
