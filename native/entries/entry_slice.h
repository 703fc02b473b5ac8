// The part of an EntryList that is in one pack: a run of its records, their links and empty
// folders, and all folders above these. Laid out breadth-first.
//
// Takes 4 bytes an entry and 16 a folder, besides the list, which must not change meanwhile.

#pragma once

#include <cstdint>
#include <vector>

#include "entries/entry_list.h"
#include "tree/index_entries.h"

namespace ffrfs {

class EntrySlice final : public IndexEntries {
 public:
  // Takes the list's records [first, first + count), numbered from 0 here. `list` must be numbered.
  EntrySlice(const EntryList& list, uint32_t first, uint32_t count);

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
  // For a file or a link.
  [[nodiscard]] bool has(const EntryList::Entry& entry) const {
    return entry.detail - first_ < count_;  // unsigned, so that smaller numbers wrap
  }

  const EntryList& list_;
  const uint32_t first_;
  const uint32_t count_;
  std::vector<bool> folders_;          // by the list's folder: whether it is in the pack
  std::vector<EntryList::Node> nodes_;  // by slot
  std::vector<SourceDirectory> directories_;
  std::vector<uint32_t> slots_;  // by the list's folder
};

}  // namespace ffrfs
