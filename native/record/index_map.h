// An opened mapped index (index_layout.h): from the end of a pack, or from a sidecar.
//
// Opening reads the trailer and the block checksums, 4 bytes per 64 KiB, and accepts them only if
// they fit the pack. All other bytes are verified when they are accessed (io/checked_range.h).
// copy() and load() keep every access inside its section; the relations between entries must be
// checked by the caller that follows them (tree/mapped_tree.h).
//
// Immutable and thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/checked_range.h"
#include "io/source.h"
#include "record/index_layout.h"

namespace ffrfs {

// The pack that an index must belong to, as described by its header.
struct IndexedPack {
  const Source& file;
  uint64_t record_count = 0;
  uint64_t last_offset = 0;  // where its last record begins; unused if it has no records
  uint32_t header_crc = 0;   // its bytes 0x00 to 0x03
};

class IndexMap {
 public:
  // Returns the index at the end of the pack, whose file must outlive it; nullptr if there is none.
  // Throws FormatError, StorageError.
  [[nodiscard]] static std::unique_ptr<const IndexMap> in_pack(const IndexedPack& pack);

  // Advises `file`, if it seems to end with an index, that the parts that are read first are needed
  // soon. Throws StorageError.
  static void ask_for_root(const Source& file);
  // Opens a file that is an index. Throws StaleIndexError (it belongs to another pack, or to an
  // earlier version of this one), FormatError, StorageError.
  [[nodiscard]] static std::unique_ptr<const IndexMap> sidecar(std::unique_ptr<const Source> file,
                                                               const IndexedPack& pack);

  // Returns the path of the file that contains the index: the pack or the sidecar.
  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] bool is_sidecar() const { return owned_file_ != nullptr; }

  // Returns the size in bytes: a multiple of the size of the section's entries.
  [[nodiscard]] uint64_t size(Section section) const { return place(section).size; }
  [[nodiscard]] uint64_t count(Section section) const {
    return size(section) / section_entry_size(section);
  }
  [[nodiscard]] uint64_t record_count() const { return trailer_.record_count; }
  [[nodiscard]] uint64_t link_count() const { return trailer_.link_count; }
  [[nodiscard]] uint64_t index_size() const { return trailer_.index_size; }

  // Fills `target` with verified bytes of a section, from `offset` in it. Throws FormatError (not
  // inside the section), ChecksumError, StorageError.
  void copy(Section section, uint64_t offset, std::span<std::byte> target) const {
    range_->copy(place_of(section, offset, target.size()), target, section_name(section));
  }

  // Returns a number or a struct of index_layout.h. Throws as copy() does.
  template <typename T> [[nodiscard]] T load(Section section, uint64_t offset) const {
    return range_->load<T>(place_of(section, offset, sizeof(T)), section_name(section));
  }

  // Returns the set of shards that the pack belongs to.
  [[nodiscard]] std::optional<IndexSet> set() const;

  // Reads and verifies the whole index, for `ffrfs verify`. Throws ChecksumError, StorageError.
  void verify() const;

 private:
  IndexMap(std::unique_ptr<const Source> owned, const Source& file, std::string advice)
      : owned_file_(std::move(owned)), file_(file), advice_(std::move(advice)) {}

  [[nodiscard]] const SectionPlace& place(Section section) const {
    return trailer_.sections[static_cast<size_t>(section)];
  }
  // Returns the position of bytes that must be inside the section.
  [[nodiscard]] uint64_t place_of(Section section, uint64_t offset, size_t size) const {
    const SectionPlace& of = place(section);
    if (offset > of.size || size > of.size - offset) refuse_outside(section, offset, size);
    return of.offset + offset;
  }
  void read_trailer();
  void check_trailer() const;
  void check_sections() const;
  void check_counts(uint64_t record_count) const;
  void read_checksums(uint64_t begin);
  [[noreturn]] void refuse(const std::string& reason) const;
  [[noreturn]] void refuse_outside(Section section, uint64_t offset, size_t size) const;

  const std::unique_ptr<const Source> owned_file_;  // of a sidecar
  const Source& file_;
  const std::string advice_;  // what to do about damage
  IndexTrailer trailer_{};
  std::optional<CheckedRange> range_;
};

}  // namespace ffrfs
