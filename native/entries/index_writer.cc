#include "entries/index_writer.h"

#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <vector>

#include "io/crc.h"
#include "io/error.h"
#include "tree/checked_stream.h"

namespace ffrfs {
namespace {

class IndexWriter {
 public:
  IndexWriter(const IndexEntries& source, const PackDescription& pack, const ByteSink& sink)
      : source_(source), pack_(pack), sink_(sink), stream_(sink) {}

  void run();

 private:
  using Put = void (IndexWriter::*)();

  void put_section(Section section, Put put);
  void put_inodes();
  void put_directories();
  void put_names();
  void put_targets();
  void put_files();
  void put_chunked() { stream_.write(std::as_bytes(pack_.chunks.records())); }
  void put_chunks() { stream_.write(std::as_bytes(pack_.chunks.checksums())); }
  void put_header() { stream_.write(std::as_bytes(pack_.header_checksums)); }
  void put_set() {
    if (pack_.set) stream_.put(*pack_.set);
  }
  void put_trailer();

  const IndexEntries& source_;
  const PackDescription& pack_;
  const ByteSink& sink_;
  CheckedStream stream_;
  std::array<SectionPlace, kSectionCount> places_{};
  uint64_t link_count_ = 0;
};

uint16_t type_bits(InodeKind kind) {
  switch (kind) {
    case InodeKind::kFile: return S_IFREG;
    case InodeKind::kDirectory: return S_IFDIR;
    case InodeKind::kSymlink: return S_IFLNK;
  }
  return 0;
}

uint64_t target_size(const IndexEntry& link) { return sizeof(uint32_t) + link.target.size(); }

void IndexWriter::run() {
  put_section(Section::kInodes, &IndexWriter::put_inodes);
  put_section(Section::kDirectories, &IndexWriter::put_directories);
  put_section(Section::kNames, &IndexWriter::put_names);
  put_section(Section::kTargets, &IndexWriter::put_targets);
  put_section(Section::kFiles, &IndexWriter::put_files);
  put_section(Section::kChunked, &IndexWriter::put_chunked);
  put_section(Section::kChunks, &IndexWriter::put_chunks);
  put_section(Section::kHeader, &IndexWriter::put_header);
  put_section(Section::kSet, &IndexWriter::put_set);
  put_trailer();
}

void IndexWriter::put_section(Section section, Put put) {
  SectionPlace& place = places_[static_cast<size_t>(section)];
  place.offset = stream_.size();
  (this->*put)();
  place.size = stream_.size() - place.offset;
  stream_.align_8();
}

void IndexWriter::put_inodes() {
  uint64_t name_offset = 0;
  uint64_t directory = 0;
  uint64_t target_offset = 0;
  for (uint32_t slot = 0; slot < source_.slot_count(); ++slot) {
    const IndexEntry entry = source_.entry(slot);
    uint64_t value = entry.record;
    if (entry.kind == InodeKind::kDirectory) value = directory++;
    if (entry.kind == InodeKind::kSymlink) {
      value = target_offset;
      ++link_count_;
      target_offset += target_size(entry);
    }
    const unsigned mode = type_bits(entry.kind) | entry.mode.value_or(0);
    stream_.put(IndexInode{.name_offset = name_offset,
                           .value = value,
                           .mtime_ns = entry.mtime_ns.value_or(kUnknownMtime),
                           .parent = entry.parent,
                           .mode = static_cast<uint16_t>(mode),
                           .name_size = static_cast<uint16_t>(entry.name.size())});
    name_offset += entry.name.size();
  }
  if (name_offset > kNamesSizeLimit) throw FormatError("the names take more than 2^48 bytes");
}

void IndexWriter::put_directories() {
  uint32_t first_subdirectory = 1;
  for (uint32_t number = 0; number < source_.directory_count(); ++number) {
    const SourceDirectory directory = source_.directory(number);
    stream_.put(IndexDirectory{.slot = directory.slot,
                               .first_child = directory.first,
                               .entry_count = directory.entry_count,
                               .first_subdirectory = first_subdirectory,
                               .subdirectory_count = directory.subdirectory_count,
                               .zero = 0});
    first_subdirectory += directory.subdirectory_count;
  }
}

void IndexWriter::put_names() {
  for (uint32_t slot = 0; slot < source_.slot_count(); ++slot) {
    stream_.write(std::as_bytes(std::span(source_.entry(slot).name)));
  }
}

void IndexWriter::put_targets() {
  for (uint32_t slot = 0; slot < source_.slot_count(); ++slot) {
    const IndexEntry entry = source_.entry(slot);
    if (entry.kind != InodeKind::kSymlink) continue;
    stream_.put(static_cast<uint32_t>(entry.target.size()));
    stream_.write(std::as_bytes(std::span(entry.target)));
  }
}

void IndexWriter::put_files() {
  std::vector<uint32_t> files(pack_.record_count, kNoFile);
  for (uint32_t slot = source_.slot_count(); slot-- > 0;) {
    const IndexEntry entry = source_.entry(slot);
    if (entry.kind == InodeKind::kFile) files.at(entry.record) = slot;
  }
  stream_.write(std::as_bytes(std::span(files)));
}

void IndexWriter::put_trailer() {
  const uint64_t checked_size = stream_.size();
  std::vector<uint32_t> checksums = stream_.finish();
  checksums.resize(index_checksums_size(checked_size) / sizeof(uint32_t));
  const auto checksum_bytes = std::as_bytes(std::span(checksums));
  sink_(checksum_bytes);
  const size_t real_size = index_block_count(checked_size) * sizeof(uint32_t);
  const uint64_t size = checked_size + checksum_bytes.size() + sizeof(IndexTrailer);
  IndexTrailer trailer{.magic = kIndexMagic,
                       .version = kIndexVersion,
                       .flags = 0,
                       .index_size = size,
                       .checked_size = checked_size,
                       .record_count = pack_.record_count,
                       .pack_size = pack_.size(size),
                       .pack_mtime_ns = pack_.mtime_ns,
                       .pack_header_crc = pack_.header_crc,
                       .checksums_crc = crc32c(checksum_bytes.first(real_size)),
                       .sections = places_,
                       .link_count = link_count_,
                       .zero = {},
                       .crc = 0};
  const auto bytes = std::as_bytes(std::span(&trailer, 1));
  trailer.crc = crc32c(bytes.first(offsetof(IndexTrailer, crc)));
  sink_(bytes);
}

}  // namespace

void write_index(const IndexEntries& source, const PackDescription& pack, const ByteSink& sink) {
  IndexWriter(source, pack, sink).run();
}

}  // namespace ffrfs
