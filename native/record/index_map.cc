#include "record/index_map.h"

#include <algorithm>

#include "io/crc.h"
#include "io/error.h"
#include "record/header_layout.h"

namespace ffrfs {
namespace {

static_assert(CheckedRange::kBlockSize == kIndexBlockSize);

std::string number(uint64_t value) { return std::to_string(value); }

}  // namespace

std::unique_ptr<const IndexMap> IndexMap::in_pack(const IndexedPack& pack) {
  const uint64_t size = pack.file.size();
  if (size < sizeof(IndexTrailer) || pack.record_count == 0) return nullptr;
  std::unique_ptr<IndexMap> index(
      new IndexMap(nullptr, pack.file, "restore the file or pack it again"));
  index->read_trailer();
  if (index->trailer_.magic != kIndexMagic) return nullptr;
  index->check_trailer();
  const IndexTrailer& trailer = index->trailer_;
  const uint64_t begin = size - trailer.index_size;
  if (trailer.pack_size != size) {
    index->refuse("it is of a file of " + number(trailer.pack_size) + " bytes, this one has " +
                  number(size));
  }
  if (trailer.pack_mtime_ns != 0 || trailer.pack_header_crc != 0) {
    index->refuse("it is a sidecar's");
  }
  if (begin < pack.last_offset || begin - pack.last_offset < kFolderMagic.size() ||
      begin % kIndexAlignment != 0) {
    index->refuse("it begins at offset " + number(begin));
  }
  index->check_counts(pack.record_count);
  index->read_checksums(begin);
  return index;
}

// Only advice, so nothing is verified.
void IndexMap::ask_for_root(const Source& file) {
  IndexTrailer trailer;
  if (file.size() < sizeof trailer) return;
  file.read_fully(file.size() - sizeof trailer, std::as_writable_bytes(std::span(&trailer, 1)));
  if (trailer.magic != kIndexMagic || trailer.index_size > file.size()) return;
  const uint64_t begin = file.size() - trailer.index_size;
  for (const Section section : {Section::kInodes, Section::kDirectories, Section::kNames}) {
    const uint64_t offset = trailer.sections[static_cast<size_t>(section)].offset;
    if (offset < trailer.index_size) file.will_need(begin + offset, kIndexBlockSize);
  }
}

std::unique_ptr<const IndexMap> IndexMap::sidecar(std::unique_ptr<const Source> file,
                                                  const IndexedPack& pack) {
  const Source& own = *file;
  std::unique_ptr<IndexMap> index(
      new IndexMap(std::move(file), own, "make it anew: ffrfs index " + pack.file.path()));
  if (own.size() < sizeof(IndexTrailer)) {
    index->refuse("it has " + number(own.size()) + " bytes, the end of an index has 256");
  }
  index->read_trailer();
  if (index->trailer_.magic != kIndexMagic) index->refuse("it does not end as an index does");
  index->check_trailer();
  const IndexTrailer& trailer = index->trailer_;
  if (trailer.index_size != own.size()) {
    index->refuse("it has " + number(own.size()) + " bytes and says " + number(trailer.index_size));
  }
  const auto stale = [&](const std::string& what) {
    return StaleIndexError(own.path(), "stale index: " + pack.file.path() + " has changed (" +
                                           what + "); " + index->advice_);
  };
  if (trailer.pack_size != pack.file.size()) throw stale("its size");
  if (trailer.pack_mtime_ns != pack.file.mtime_ns()) throw stale("its time");
  if (trailer.pack_header_crc != pack.header_crc) throw stale("its header");
  index->check_counts(pack.record_count);
  index->read_checksums(0);
  return index;
}

void IndexMap::read_trailer() {
  file_.read_fully(file_.size() - sizeof(IndexTrailer),
                   std::as_writable_bytes(std::span(&trailer_, 1)));
}

void IndexMap::check_trailer() const {
  const auto bytes = std::as_bytes(std::span(&trailer_, 1));
  const uint32_t crc = crc32c(bytes.first(offsetof(IndexTrailer, crc)));
  if (crc != trailer_.crc) {
    refuse("the checksum of its trailer is " + hex(trailer_.crc) + ", the bytes give " + hex(crc));
  }
  if (trailer_.version != kIndexVersion) {
    refuse("it is of version " + number(trailer_.version) + ", this program reads version 1");
  }
  if (trailer_.flags != 0) {
    refuse("its flags are " + hex(trailer_.flags) + ", which this program does not know");
  }
  if (std::ranges::any_of(trailer_.zero, [](std::byte byte) { return byte != std::byte{0}; })) {
    refuse("its trailer has bytes that this program does not know");
  }
  // In this order nothing overflows: each number is bounded by those that were checked before.
  const uint64_t size = trailer_.index_size;
  const uint64_t checked_size = trailer_.checked_size;
  if (size > file_.size() || checked_size > size || checked_size % 8 != 0 ||
      size != checked_size + index_checksums_size(checked_size) + sizeof(IndexTrailer)) {
    refuse("it says that it has " + number(size) + " bytes, " + number(checked_size) +
           " of them with checksums");
  }
  check_sections();
}

void IndexMap::check_sections() const {
  uint64_t end = 0;
  for (size_t i = 0; i < kSectionCount; ++i) {
    const auto section = static_cast<Section>(i);
    const auto [offset, size] = place(section);
    // Sections are contiguous, so that none overlap and every byte belongs to one.
    if (offset != end || size > trailer_.checked_size - offset ||
        size % section_entry_size(section) != 0) {
      refuse(std::string("its section ") + section_name(section) + " begins at " + number(offset) +
             " and has " + number(size) + " bytes");
    }
    // At most checked_size, which is a multiple of 8, too.
    end = align_8(offset + size);
  }
  if (end != trailer_.checked_size) refuse("its sections end at " + number(end));
}

void IndexMap::check_counts(uint64_t record_count) const {
  if (trailer_.record_count != record_count) {
    refuse("it is of " + number(trailer_.record_count) + " records, the file has " +
           number(record_count));
  }
  const auto check = [&](Section section, bool is_well) {
    if (is_well) return;
    refuse(std::string("its section ") + section_name(section) + " has " + number(count(section)) +
           " entries");
  };
  const uint64_t slots = count(Section::kInodes);
  const uint64_t directories = count(Section::kDirectories);
  check(Section::kInodes, slots >= 1 && slots <= kSlotLimit);
  check(Section::kDirectories, directories >= 1 && directories <= slots);
  check(Section::kNames, count(Section::kNames) <= kNamesSizeLimit);
  check(Section::kFiles, count(Section::kFiles) == record_count);
  check(Section::kHeader,
        count(Section::kHeader) == index_block_count(ffrecord_header_size(record_count)));
  check(Section::kSet, count(Section::kSet) <= 1);
  if (trailer_.link_count > slots - directories) {
    refuse("it says " + number(trailer_.link_count) + " symbolic links");
  }
}

void IndexMap::read_checksums(uint64_t begin) {
  const uint64_t size = trailer_.checked_size;
  // Bounded by the file, because its sizes were compared.
  std::vector<uint32_t> checksums(static_cast<size_t>(index_block_count(size)));
  const auto bytes = std::as_writable_bytes(std::span(checksums));
  file_.read_fully(begin + size, bytes);
  const uint32_t crc = crc32c(bytes);
  if (crc != trailer_.checksums_crc) {
    refuse("the checksum of its checksums is " + hex(trailer_.checksums_crc) + ", the bytes give " +
           hex(crc));
  }
  range_.emplace(file_, begin, size, std::move(checksums), "index", advice_);
}

std::optional<IndexSet> IndexMap::set() const {
  if (size(Section::kSet) == 0) return std::nullopt;
  return load<IndexSet>(Section::kSet, 0);
}

void IndexMap::verify() const {
  for (size_t i = 0; i < kSectionCount; ++i) {
    const auto section = static_cast<Section>(i);
    range_->verify(place(section).offset, size(section), section_name(section));
  }
}

void IndexMap::refuse(const std::string& reason) const {
  throw FormatError(path(), "damaged index: " + reason + "; " + advice_);
}

void IndexMap::refuse_outside(Section section, uint64_t offset, size_t size) const {
  refuse(std::string("it points to ") + number(size) + " bytes at " + number(offset) +
         " of its section " + section_name(section) + ", which has " + number(this->size(section)));
}

}  // namespace ffrfs
