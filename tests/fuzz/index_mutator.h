// Mutates a pack with an index in its last record (record/index_layout.h), and can correct its
// checksums, so that the fuzzer gets beyond them to the content of the index.
//
// Most mutations change one field of one entry, to a value at the edge of what a reader may expect:
// a neighbour, the end of a section, the largest number.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "io/crc.h"
#include "io/little_endian.h"
#include "record/header_layout.h"
#include "record/index_layout.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace ffrfs::fuzz {

class IndexMutator {
 public:
  using Random = std::minstd_rand;

  // `pack` is changed in place, and keeps its size.
  IndexMutator(std::span<std::byte> pack, uint32_t seed) : pack_(pack), random_(seed) {}

  // Return false if the pack does not end with an index that lies inside it.
  [[nodiscard]] bool find_index() {
    if (pack_.size() < sizeof trailer_) return false;
    trailer_ = load_le<IndexTrailer>(pack_, trailer_offset());
    if (trailer_.magic != kIndexMagic || trailer_.index_size > pack_.size() ||
        trailer_.index_size < sizeof trailer_ || trailer_.checked_size > trailer_.index_size) {
      return false;
    }
    index_ = pack_.last(static_cast<size_t>(trailer_.index_size));
    return true;
  }

  void mutate() {
    for (uint32_t left = 1 + below(3); left > 0; --left) {
      const uint32_t kind = below(16);
      if (kind < 11) {
        mutate_field();
      } else if (kind < 13) {
        mutate_bytes(section(any_section()));
      } else if (kind < 14) {
        mutate_trailer();
      } else if (kind < 15) {
        swap_entries();
      } else {
        mutate_bytes(pack_.first(pack_.size() - index_.size()));
      }
    }
  }

  // Corrects the checksums: of the header (in section 7), the blocks, the checksums, the trailer.
  void mend() {
    mend_header();
    const auto checked = index_.first(static_cast<size_t>(trailer_.checked_size));
    const auto checksums = index_.subspan(checked.size());
    for (size_t at = 0; at < checked.size(); at += kIndexBlockSize) {
      const size_t place = at / kIndexBlockSize * sizeof(uint32_t);
      if (place + sizeof(uint32_t) > checksums.size() - sizeof trailer_) break;
      const auto size = std::min<size_t>(kIndexBlockSize, checked.size() - at);
      store_le(checksums, place, crc32c(checked.subspan(at, size)));
    }
    const auto count = static_cast<size_t>(index_block_count(checked.size()));
    const size_t size = std::min(count * sizeof(uint32_t), checksums.size() - sizeof trailer_);
    trailer_.checksums_crc = crc32c(checksums.first(size));
    const auto bytes = std::as_bytes(std::span(&trailer_, 1));
    trailer_.crc = crc32c(bytes.first(offsetof(IndexTrailer, crc)));
    std::memcpy(pack_.data() + trailer_offset(), &trailer_, sizeof trailer_);
  }

 private:
  struct Field {
    size_t offset;
    size_t size;
  };

  static std::vector<Field> fields(Section of) {
    switch (of) {
      case Section::kInodes: return {{0, 8}, {8, 8}, {16, 8}, {24, 4}, {28, 2}, {30, 2}};
      case Section::kDirectories: return {{0, 4}, {4, 4}, {8, 4}, {12, 4}, {16, 4}, {20, 4}};
      case Section::kNames: return {{0, 1}};
      case Section::kTargets:
      case Section::kFiles:
      case Section::kChunks:
      case Section::kHeader: return {{0, 4}};
      case Section::kChunked: return {{0, 8}, {8, 8}};
      case Section::kSet: return {{0, 8}, {16, 4}, {20, 4}, {24, 8}};
    }
    return {};
  }

  uint32_t below(uint64_t limit) { return static_cast<uint32_t>(random_() % limit); }
  [[nodiscard]] size_t trailer_offset() const { return pack_.size() - sizeof trailer_; }

  // Prefers the sections that refer to others.
  Section any_section() {
    constexpr std::array kLikely{
        Section::kInodes,      Section::kInodes,      Section::kInodes,
        Section::kDirectories, Section::kDirectories, Section::kDirectories,
        Section::kNames,       Section::kTargets,     Section::kFiles};
    const uint32_t choice = below(kLikely.size() + kSectionCount);
    return choice < kLikely.size() ? kLikely[choice]
                                   : static_cast<Section>(choice - kLikely.size());
  }

  std::span<std::byte> section(Section of) {
    const auto [offset, size] = trailer_.sections[static_cast<size_t>(of)];
    const auto checked = index_.first(static_cast<size_t>(trailer_.checked_size));
    if (offset > checked.size() || size > checked.size() - offset) return {};
    return checked.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
  }

  uint64_t any_value(uint64_t now) {
    const auto count = [&](Section of) {
      return trailer_.sections[static_cast<size_t>(of)].size / section_entry_size(of);
    };
    const std::array<uint64_t, 20> values{
        0, 1, 2, now + 1, now - 1, now ^ (uint64_t{1} << below(64)), now * 2, below(16), below(256),
        count(Section::kInodes), count(Section::kInodes) - 1, count(Section::kDirectories),
        count(Section::kDirectories) - 1, count(Section::kNames), count(Section::kTargets),
        trailer_.record_count, trailer_.record_count - 1, UINT64_MAX, uint64_t{1} << 63,
        // types of inodes, and one that is not allowed
        std::array<uint64_t, 4>{0x41ed, 0x81a4, 0xa1ff, 0x21a4}[below(4)]};
    return values[below(values.size())];
  }

  void change(std::span<std::byte> bytes, Field field) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + field.offset, field.size);
    value = any_value(value);
    std::memcpy(bytes.data() + field.offset, &value, field.size);
  }

  void mutate_field() {
    const Section of = any_section();
    const auto entry_size = static_cast<size_t>(section_entry_size(of));
    const auto bytes = section(of);
    const auto all = fields(of);
    const Field field = all[below(all.size())];
    if (bytes.size() < std::max(entry_size, field.size)) return;
    const size_t places = (bytes.size() - std::max(entry_size, field.size)) / entry_size + 1;
    change(bytes.subspan(below(places) * entry_size), field);
  }

  void mutate_bytes(std::span<std::byte> bytes) {
    if (bytes.empty()) return;
    std::vector<uint8_t> copy(bytes.size());
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    const size_t size = LLVMFuzzerMutate(copy.data(), copy.size(), copy.size());
    std::memcpy(bytes.data(), copy.data(), size);
  }

  void mutate_trailer() {
    const auto bytes = std::as_writable_bytes(std::span(&trailer_, 1));
    constexpr size_t kFields = offsetof(IndexTrailer, crc) / 4;
    const size_t offset = 4 * below(kFields);
    const IndexTrailer before = trailer_;
    change(bytes, {offset, offset % 8 == 0 && offset + 8 <= sizeof trailer_ ? size_t{8} : 4});
    // These stay, so that the checksums can be corrected.
    trailer_.index_size = before.index_size;
    trailer_.checked_size = before.checked_size;
  }

  void swap_entries() {
    const Section of = any_section();
    const auto size = static_cast<size_t>(section_entry_size(of));
    const auto bytes = section(of);
    if (bytes.size() < size) return;
    const auto first = bytes.subspan(below(bytes.size() / size) * size, size);
    const auto second = bytes.subspan(below(bytes.size() / size) * size, size);
    if (first.data() != second.data()) std::swap_ranges(first.begin(), first.end(), second.begin());
  }

  void mend_header() {
    const auto checksums = section(Section::kHeader);
    if (pack_.size() < 12 || checksums.size() < sizeof(uint32_t)) return;
    const auto count = load_le<uint64_t>(pack_, 4);
    if (count == 0 || count > pack_.size() / 12 - 1) return;
    const auto size = static_cast<size_t>(ffrecord_header_size(count));
    if (size > pack_.size() - index_.size() || size > kIndexBlockSize) return;
    std::vector<std::byte> header(pack_.begin(), pack_.begin() + static_cast<ptrdiff_t>(size));
    store_le(std::span(header), 0, uint32_t{0});
    store_le(std::span(header), 12 + 4 * (static_cast<size_t>(count) - 1), uint32_t{0});
    store_le(checksums, 0, crc32c(header));
  }

  const std::span<std::byte> pack_;
  Random random_;
  IndexTrailer trailer_{};
  std::span<std::byte> index_;
};

}  // namespace ffrfs::fuzz
