#include "record/ffrecord_shard.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "io/checked.h"
#include "io/crc.h"
#include "io/error.h"
#include "io/little_endian.h"
#include "io/local_file.h"
#include "record/header_layout.h"
#include "record/sidecar_path.h"
#include "shard/cached_index.h"

namespace ffrfs {
namespace {

template <typename T> std::span<std::byte> bytes_of(std::vector<T>& values, size_t count) {
  return std::as_writable_bytes(std::span(values).first(count));
}

// The fixed fields at the beginning of a header.
struct Fixed {
  uint32_t crc;
  int64_t count;

  // Reads the fields; `file` must be large enough.
  explicit Fixed(const Source& file) {
    std::array<std::byte, kHeaderFixedSize> bytes;
    file.read_fully(0, bytes);
    crc = stored_header_checksum(bytes);
    count = load_le<int64_t>(bytes, 4);
  }

  [[nodiscard]] bool fits(const Source& file) const {
    if (count < 0) return false;
    const auto size = checked_header_size(static_cast<uint64_t>(count));
    return size && *size <= file.size();
  }
};

// Returns nullptr if the file does not exist.
std::unique_ptr<const IndexMap> open_sidecar(const std::string& path, size_t place,
                                             const IndexedPack& pack) {
  std::unique_ptr<const Source> sidecar;
  try {
    sidecar = open_local_file(path);
  } catch (const StorageError& error) {
    if (error.code() == ENOENT || error.code() == ENOTDIR) return nullptr;
    throw;
  }
  if (!is_trusted_index(*sidecar, pack.file, place == 0)) {
    throw FormatError(path, "belongs to another user; remove it");
  }
  return IndexMap::sidecar(std::move(sidecar), pack);
}

// No file has that many records: these bytes are not a truncated header.
constexpr uint64_t kCountPlausible = uint64_t{1} << 40;
constexpr uint64_t kPieceCount = uint64_t{1} << 17;    // offsets, 1 MiB
constexpr uint64_t kTrustedCount = uint64_t{1} << 22;  // records whose tables take 48 MiB

// For most packs this includes the index's trailer and its checksums.
constexpr uint64_t kIndexEndSize = uint64_t{1} << 20;

uint64_t checksum_place(uint64_t record) { return kHeaderFixedSize + 4 * record; }
uint64_t offset_place(uint64_t count, uint64_t record) {
  return kHeaderFixedSize + 4 * count + 8 * record;
}

}  // namespace

FfrecordShard::FfrecordShard(std::shared_ptr<const Source> file, IndexUse use)
    : Shard(std::move(file)) {
  with_second_try<FormatError>(this->file(), 0, kHeaderFixedSize, [this, use] { open(use); });
}

void FfrecordShard::open(IndexUse use) {
  ignored_.reset();
  read_fixed();
  if (use == IndexUse::kIfSound) {
    if (file().can_refetch()) ask_for_index();
    find_index();
  }
  if (index_) return;
  with_second_try<FormatError>(file(), 0, header_size(), [this] { read_tables(); });
}

void FfrecordShard::read_fixed() {
  const std::string& path = file().path();
  const uint64_t file_size = file().size();
  if (file_size == 0) throw FormatError(path, "is empty: not an FFRecord file");
  if (file_size < kHeaderFixedSize) {
    throw FormatError(path, "truncated, or not an FFRecord file: it has " +
                                std::to_string(file_size) + " bytes, a header at least 12");
  }
  const Fixed fixed(file());
  stored_crc_ = fixed.crc;
  if (fixed.count < 0) {
    throw FormatError(path, "not an FFRecord or TFRecord file: its header says " +
                                std::to_string(fixed.count) + " records");
  }
  count_ = static_cast<uint64_t>(fixed.count);
  // Before any allocation: the tables must be in the file.
  if (!fixed.fits(file())) {
    if (count_ > kCountPlausible) throw FormatError(path, "not an FFRecord or TFRecord file");
    throw FormatError(path, "truncated, or not an FFRecord file: its header says " +
                                std::to_string(count_) + " records, the file has " +
                                std::to_string(file_size) + " bytes");
  }
}

void FfrecordShard::read_tables() {
  if (count_ > kTrustedCount) check_pieces();
  checksums_.resize(count_);
  offsets_.resize(count_ + 1);
  offsets_.back() = file().size();
  const auto checksum_bytes = bytes_of(checksums_, count_);
  const auto offset_bytes = bytes_of(offsets_, count_);
  file().read_fully(checksum_place(0), checksum_bytes);
  file().read_fully(offset_place(count_, 0), offset_bytes);

  uint32_t crc = crc32(std::as_bytes(std::span(&count_, 1)));
  crc = crc32(checksum_bytes, crc);
  crc = crc32(offset_bytes, crc);
  metadata_verified_ = stored_crc_ != 0 || crc == 0;
  if (metadata_verified_ && crc != stored_crc_) {
    throw FormatError(file().path(), "damaged header: its checksum is " + hex(stored_crc_) +
                                         ", its bytes give " + hex(crc) +
                                         "; restore the file or pack it again");
  }
  if (count_ == 0 && file().size() != header_size()) {
    throw FormatError(file().path(), "not an FFRecord file: its header says 0 records, but " +
                                         std::to_string(file().size() - header_size()) +
                                         " bytes follow");
  }
  check_offsets(std::span(offsets_).first(count_), 0, 0);
  byte_count_ = offsets_.back() - offsets_.front();
}

// Checks the offsets before memory is allocated for them: a sparse file can claim tables as large
// as itself, and its holes are zeros, which are no offsets.
void FfrecordShard::check_pieces() const {
  std::vector<uint64_t> memory(kPieceCount);
  uint64_t before = 0;
  for (uint64_t first = 0; first < count_; first += kPieceCount) {
    const auto piece = std::span(memory).first(std::min(kPieceCount, count_ - first));
    file().read_fully(offset_place(count_, first), std::as_writable_bytes(piece));
    check_offsets(piece, first, before);
    before = piece.back();
  }
}

// Checks the offsets from record `first` on; `before` is that of the record before it.
void FfrecordShard::check_offsets(std::span<const uint64_t> offsets, uint64_t first,
                                  uint64_t before) const {
  const auto bad = [&](size_t place, const std::string& what) {
    return FormatError(file().path(), "damaged header: record " + std::to_string(first + place) +
                                          " begins at offset " + std::to_string(offsets[place]) +
                                          ", " + what);
  };
  // As unsigned numbers, negative offsets are beyond every end.
  for (size_t place = 0; place < offsets.size(); ++place) {
    if (offsets[place] > file().size()) {
      throw bad(place, "beyond the end of the file (" + std::to_string(file().size()) +
                           " bytes): it was truncated");
    }
    if (offsets[place] < header_size()) {
      throw bad(place, "inside the header (" + std::to_string(header_size()) + " bytes)");
    }
    if (offsets[place] < before) {
      throw bad(place, "before record " + std::to_string(first + place - 1));
    }
    before = offsets[place];
  }
}

// Requests at once what opening and listing the root read, because each costs a round trip.
void FfrecordShard::ask_for_index() const {
  if (count_ == 0) return;
  file().will_need(offset_place(count_, count_ - 1), sizeof(uint64_t));
  file().will_need(checksum_place(count_ - 1),
                   offset_place(count_, 1) - checksum_place(count_ - 1));
  IndexMap::ask_for_root(file());
}

// Uses the index in the file, or else the first sound sidecar.
void FfrecordShard::find_index() {
  if (count_ == 0) return;  // nothing follows the header
  std::array<std::byte, sizeof(uint64_t)> last;
  file().read_fully(offset_place(count_, count_ - 1), last);
  const IndexedPack pack{.file = file(),
                         .record_count = count_,
                         .last_offset = load_le<uint64_t>(last),
                         .header_crc = stored_crc_};
  const auto in_pack = [&] {
    const uint64_t end = std::min(file().size(), kIndexEndSize);
    return with_second_try<FormatError>(file(), file().size() - end, end,
                                        [&] { return IndexMap::in_pack(pack); });
  };
  if (use_index(pack, in_pack, ignored_)) return;

  const auto paths = index_sidecar_paths(file());
  std::optional<IgnoredIndex> ignored;
  for (size_t place = 0; place < paths.size(); ++place) {
    const auto sidecar = [&] { return open_sidecar(paths[place], place, pack); };
    if (use_index(pack, sidecar, ignored)) return;
  }
  if (!ignored_) ignored_ = ignored;
}

// Returns false if there is no index, or it is unsound; then `ignored` holds the first reason.
template <typename Open>
bool FfrecordShard::use_index(const IndexedPack& pack, Open open,
                              std::optional<IgnoredIndex>& ignored) {
  try {
    index_ = open();
    if (index_) check_header(pack);
  } catch (const Error& error) {
    header_.reset();
    index_.reset();
    if (!ignored) {
      ignored = {.path = error.path(),
                 .reason = error.reason() + "; ignored until then",
                 .is_stale = dynamic_cast<const StaleIndexError*>(&error) != nullptr};
    }
  }
  return index_ != nullptr;
}

std::string FfrecordShard::warning() const {
  return ignored_ ? ignored_->path + ": " + ignored_->reason : "";
}

std::string FfrecordShard::warning_within() const {
  return ignored_ && ignored_->path == file().path() ? ignored_->reason : warning();
}

void FfrecordShard::check_header(const IndexedPack& pack) {
  std::vector<uint32_t> checksums(index_->count(Section::kHeader));
  index_->copy(Section::kHeader, 0, std::as_writable_bytes(std::span(checksums)));
  // An index inside the last record cannot contain these two, because both cover it.
  std::vector<CheckedRange::Blank> unknown{{.offset = 0, .size = 4},
                                           {.offset = checksum_place(count_ - 1), .size = 4}};
  header_.emplace(file(), 0, header_size(), std::move(checksums), "header",
                  "restore the file or pack it again", std::move(unknown));
  if (extent(count_ - 1).offset != pack.last_offset) {
    throw FormatError(file().path(), "damaged header: its last record begins elsewhere");
  }
  byte_count_ = file().size() - extent(0).offset;
}

Extent FfrecordShard::extent(uint64_t record) const {
  if (index_) return checked_extent(record);
  return {.shard = 0,
          .record = record,
          .offset = offsets_[record],
          .size = offsets_[record + 1] - offsets_[record],
          .checksum = Checksum::kCrc32,
          .crc32 = checksums_[record],
          .header_size = 0};
}

Extent FfrecordShard::checked_extent(uint64_t record) const {
  const auto offset_of = [&](uint64_t place) {
    return header_->load<uint64_t>(offset_place(count_, place), "offsets");
  };
  const uint64_t begin = offset_of(record);
  const uint64_t end = record + 1 < count_ ? offset_of(record + 1) : file().size();
  if (begin < header_size() || begin > end || end > file().size()) {
    throw FormatError(file().path(),
                      "damaged header: record " + std::to_string(record) + " begins at offset " +
                          std::to_string(begin) + " and ends at " + std::to_string(end) +
                          "; records can only be between " + std::to_string(header_size()) +
                          " and " + std::to_string(file().size()));
  }
  return {.shard = 0,
          .record = record,
          .offset = begin,
          .size = end - begin,
          .checksum = Checksum::kCrc32,
          .crc32 = header_->load<uint32_t>(checksum_place(record), "checksums"),
          .header_size = 0};
}

std::vector<uint32_t> FfrecordShard::chunk_checksums(uint64_t record) const {
  if (!index_ || index_->size(Section::kChunked) == 0) return {};
  const uint64_t size = extent(record).size;
  if (size <= kIndexChunkSize) return {};
  const auto first = first_chunk(record);
  if (!first) return {};
  // A position that overflows is outside the section.
  const uint64_t place = checked_mul(*first, 4).value_or(UINT64_MAX);
  std::vector<uint32_t> checksums(record_chunk_count(size));
  index_->copy(Section::kChunks, place, std::as_writable_bytes(std::span(checksums)));
  return checksums;
}

// By binary search. Returns nullopt if the record has none.
std::optional<uint64_t> FfrecordShard::first_chunk(uint64_t record) const {
  uint64_t begin = 0;
  uint64_t end = index_->count(Section::kChunked);
  while (begin < end) {
    const uint64_t middle = begin + (end - begin) / 2;
    const auto entry =
        index_->load<ChunkedRecord>(Section::kChunked, middle * sizeof(ChunkedRecord));
    if (entry.record == record) return entry.first_chunk;
    if (entry.record < record) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> claimed_record_count(const Source& file) {
  if (file.size() < kHeaderFixedSize) return std::nullopt;
  const Fixed fixed(file);
  return fixed.fits(file) ? std::optional(static_cast<uint64_t>(fixed.count)) : std::nullopt;
}

ShardSet open_ffrecord_shards(const std::vector<std::string>& paths, IndexUse use,
                              const OpenSource& open) {
  if (paths.empty()) throw FormatError("no FFRecord file was named");
  const remote::OpenTogether together(paths);
  std::vector<std::unique_ptr<const Shard>> shards;
  for (const std::string& path : paths) {
    shards.push_back(std::make_unique<FfrecordShard>(open(path), use));
  }
  return ShardSet(std::move(shards));
}

}  // namespace ffrfs
