// The files of an EntryList that become records, for a FilePacker. Paths are built when they are
// needed. The list must not change meanwhile.

#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "entries/entry_list.h"
#include "record/file_list.h"

namespace ffrfs {

class EntryFiles final : public FileList {
 public:
  // Takes the list's records [first, first + count); reads the files below `root`.
  EntryFiles(const EntryList& list, std::string root, LinkRule links, uint32_t first,
             uint32_t count)
      : list_(list), root_(std::move(root)), links_(links), first_(first), count_(count) {
    if (!root_.ends_with('/')) root_ += '/';
  }

  [[nodiscard]] uint64_t count() const override { return count_; }
  [[nodiscard]] uint64_t size(uint64_t number) const override { return entry(number).value; }
  [[nodiscard]] FileToPack file(uint64_t number) const override {
    const EntryList::Entry& file = entry(number);
    return {.path = root_ + list_.path(file), .size = file.value, .mtime_ns = file.mtime_ns};
  }
  [[nodiscard]] std::string root() const override { return root_; }
  [[nodiscard]] LinkRule link_rule() const override { return links_; }

 private:
  [[nodiscard]] const EntryList::Entry& entry(uint64_t number) const {
    return list_.file(list_.file_of(first_ + static_cast<uint32_t>(number)));
  }

  const EntryList& list_;
  std::string root_;
  const LinkRule links_;
  const uint32_t first_;
  const uint32_t count_;
};

}  // namespace ffrfs
