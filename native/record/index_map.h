// A mapped index (index_layout.h), opened: from the end of a pack, or from a sidecar.
//
// Opening reads the trailer and the block checksums, 4 bytes per 64 KiB, and believes what
// they say only where it fits the pack. Everything else is checked when it is touched
// (io/verified_map.h). bytes() and load() keep every access inside its section; what the
// entries say of each other is for those to check who follow it (tree/mapped_tree.h).
//
//   return index.read([&] { ... index.load<IndexInode>(Section::kInodes, 32 * slot) ... });
//
// Immutable: any number of threads.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/little_endian.h"
#include "io/source_file.h"
#include "io/verified_map.h"
#include "record/index_layout.h"

namespace ffrfs {

// The pack that an index must belong to, as its header says.
struct IndexedPack {
  const SourceFile& file;
  uint64_t record_count = 0;
  uint64_t last_offset = 0;  // where its last record begins; of no records: not used
  uint32_t header_crc = 0;   // its bytes 0x00 to 0x03
};

class IndexMap {
 public:
  // The index at the end of the pack, whose file outlives it; nullptr: it ends otherwise.
  // Throws FormatError, StorageError.
  [[nodiscard]] static std::unique_ptr<const IndexMap> in_pack(const IndexedPack& pack);

  // A file that is an index. Throws StaleIndexError (of another pack, or of what the pack was
  // before), FormatError, StorageError.
  [[nodiscard]] static std::unique_ptr<const IndexMap> sidecar(
      std::unique_ptr<const SourceFile> file, const IndexedPack& pack);

  // Of the file that the index stands in: the pack or the sidecar.
  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] bool is_sidecar() const { return owned_file_ != nullptr; }

  // In bytes: a multiple of the size of its entries.
  [[nodiscard]] uint64_t size(Section section) const { return place(section).size; }
  [[nodiscard]] uint64_t count(Section section) const {
    return size(section) / section_entry_size(section);
  }
  [[nodiscard]] uint64_t record_count() const { return trailer_.record_count; }
  [[nodiscard]] uint64_t link_count() const { return trailer_.link_count; }
  [[nodiscard]] uint64_t index_size() const { return trailer_.index_size; }
  [[nodiscard]] uint64_t mapped_bytes() const { return map_->size(); }
  // Of the process's own.
  [[nodiscard]] uint64_t memory_bytes() const { return sizeof *this + map_->memory_bytes(); }

  // Verified bytes of a section; they lie there as long as the index does.
  // Throws FormatError (not inside the section), ChecksumError, StorageError.
  [[nodiscard]] std::span<const std::byte> bytes(Section section, uint64_t offset,
                                                 size_t size) const {
    const SectionPlace& of = place(section);
    if (offset > of.size || size > of.size - offset) refuse_outside(section, offset, size);
    return map_->bytes(of.offset + offset, size, section_name(section));
  }

  // A number or a struct of index_layout.h, as bytes().
  template <typename T>
  [[nodiscard]] T load(Section section, uint64_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>);
    return load_le<T>(bytes(section, offset, sizeof(T)));
  }

  // What `look` returns, which calls bytes() and load(); whoever uses what they give does it
  // in here, or a file that changes meanwhile goes unnoticed. `look` may be called again.
  // About a third of a microsecond beside it, so not for each entry.
  template <typename Look>
  [[nodiscard]] auto read(Look&& look) const {
    return map_->read(look);
  }

  // The set of shards that the pack is one of.
  [[nodiscard]] std::optional<IndexSet> set() const;

  // Reads and checks all of it, for `ffrfs verify`. Throws ChecksumError, StorageError.
  void verify() const;

 private:
  IndexMap(std::unique_ptr<const SourceFile> owned, const SourceFile& file, std::string advice)
      : owned_file_(std::move(owned)), file_(file), advice_(std::move(advice)) {}

  [[nodiscard]] const SectionPlace& place(Section section) const {
    return trailer_.sections[static_cast<size_t>(section)];
  }
  void read_trailer();
  void check_trailer() const;
  void check_sections() const;
  void check_counts(uint64_t record_count) const;
  void map(uint64_t begin);
  [[noreturn]] void refuse(const std::string& reason) const;
  [[noreturn]] void refuse_outside(Section section, uint64_t offset, size_t size) const;

  const std::unique_ptr<const SourceFile> owned_file_;  // of a sidecar
  const SourceFile& file_;
  const std::string advice_;  // what to do about damage
  IndexTrailer trailer_{};
  std::optional<VerifiedMap> map_;
};

}  // namespace ffrfs
