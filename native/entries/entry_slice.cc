#include "entries/entry_slice.h"

namespace ffrfs {

using Node = EntryList::Node;

// In a list without records, links and empty folders are in its only pack.
EntrySlice::EntrySlice(const EntryList& list, uint32_t first, uint32_t count)
    : list_(list), first_(first), count_(list.record_count() == 0 ? 1 : count) {
  mark_folders();
  lay_out();
}

void EntrySlice::mark_folders() {
  folders_.assign(list_.folder_count(), false);
  folders_[EntryList::kRoot] = true;
  const auto mark = [this](uint32_t folder) {
    for (; !folders_[folder]; folder = list_.folder(folder).parent) folders_[folder] = true;
  };
  for (uint32_t file = 0; file < list_.file_count(); ++file) {
    if (has(list_.file(file))) mark(list_.file(file).parent);
  }
  for (const auto& [record, node] : list_.rest(first_, count_)) {
    mark(list_.is_folder(node) ? node : list_.entry(node).parent);
  }
}

void EntrySlice::lay_out() {
  slots_.assign(list_.folder_count(), 0);
  nodes_.reserve(uint64_t{count_} + list_.folder_count() + list_.link_count());
  nodes_.push_back(EntryList::kRoot);
  directories_.push_back({});
  for (uint32_t number = 0; number < directories_.size(); ++number) {
    const auto first = static_cast<uint32_t>(nodes_.size());
    uint32_t subdirectory_count = 0;
    for (const Node node : list_.children(nodes_[directories_[number].slot])) {
      const auto slot = static_cast<uint32_t>(nodes_.size());
      if (list_.is_folder(node)) {
        if (!folders_[node]) continue;
        slots_[node] = slot;
        directories_.push_back({.slot = slot});
        ++subdirectory_count;
      } else if (!has(list_.entry(node))) {
        continue;
      }
      nodes_.push_back(node);
    }
    directories_[number].first = first;
    directories_[number].entry_count = static_cast<uint32_t>(nodes_.size()) - first;
    directories_[number].subdirectory_count = subdirectory_count;
  }
}

IndexEntry EntrySlice::entry(uint32_t slot) const {
  const Node node = nodes_[slot];
  const EntryList::Entry& known = list_.entry(node);
  IndexEntry entry{.kind = InodeKind::kSymlink,
                   .name = list_.name(known),
                   .parent = slots_[known.parent],
                   .mode = list_.shown_mode(known, list_.is_folder(node)),
                   .mtime_ns = list_.shown_mtime_ns(known)};
  if (list_.is_folder(node)) {
    entry.kind = InodeKind::kDirectory;
  } else if (list_.is_file(node)) {
    entry.kind = InodeKind::kFile;
    entry.record = known.detail - first_;
  } else {
    entry.mode = 0777;
    entry.target = list_.target(known);
  }
  return entry;
}

}  // namespace ffrfs
