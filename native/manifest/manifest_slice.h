// What one pack shows of a Manifest: a run of its records, what goes with these of links and
// empty folders, and the folders on their way. Laid out breadth-first.
//
// 4 bytes an entry and 16 a folder, besides the list, which must not change meanwhile.

#pragma once

#include <cstdint>
#include <vector>

#include "manifest/manifest.h"
#include "tree/index_entries.h"

namespace ffrfs {

class ManifestSlice final : public IndexEntries {
 public:
  // The list's records [first, first + count), which count from 0 here. `list` is numbered.
  ManifestSlice(const Manifest& list, uint32_t first, uint32_t count);

  [[nodiscard]] uint32_t slot_count() const override {
    return static_cast<uint32_t>(nodes_.size());
  }
  [[nodiscard]] IndexEntry entry(uint32_t slot) const override;
  [[nodiscard]] uint32_t directory_count() const override {
    return static_cast<uint32_t>(directories_.size());
  }
  [[nodiscard]] SourceDirectory directory(uint32_t number) const override {
    return directories_[number];
  }

 private:
  void mark_folders();
  void lay_out();
  // Of a file or a link.
  [[nodiscard]] bool has(const Manifest::Entry& entry) const {
    return entry.detail - first_ < count_;  // as unsigned numbers
  }

  const Manifest& list_;
  const uint32_t first_;
  const uint32_t count_;
  std::vector<bool> folders_;          // of the list: is it shown
  std::vector<Manifest::Node> nodes_;  // of each slot
  std::vector<SourceDirectory> directories_;
  std::vector<uint32_t> slots_;  // of the list's folders
};

}  // namespace ffrfs
