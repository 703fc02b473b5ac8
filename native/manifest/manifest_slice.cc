#include "manifest/manifest_slice.h"

namespace ffrfs {

using Node = Manifest::Node;

ManifestSlice::ManifestSlice(const Manifest& list, uint32_t first, uint32_t count,
                                 bool rest)
    : list_(list), first_(first), count_(count) {
  mark_folders(rest);
  lay_out(rest);
}

void ManifestSlice::mark_folders(bool rest) {
  folders_.assign(list_.folder_count(), false);
  folders_[Manifest::kRoot] = true;
  const auto mark = [this](uint32_t folder) {
    for (; !folders_[folder]; folder = list_.folder(folder).parent) folders_[folder] = true;
  };
  for (uint32_t file = 0; file < list_.file_count(); ++file) {
    if (has(list_.file(file))) mark(list_.file(file).parent);
  }
  if (!rest) return;
  for (Node link = list_.first_link(); link < list_.node_count(); ++link) {
    mark(list_.entry(link).parent);
  }
  for (uint32_t folder = 0; folder < list_.folder_count(); ++folder) {
    if (list_.folder(folder).value == 0) mark(folder);
  }
}

void ManifestSlice::lay_out(bool rest) {
  slots_.assign(list_.folder_count(), 0);
  nodes_.reserve(uint64_t{count_} + list_.folder_count() + list_.link_count());
  nodes_.push_back(Manifest::kRoot);
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
      } else if (list_.is_file(node) ? !has(list_.entry(node)) : !rest) {
        continue;
      }
      nodes_.push_back(node);
    }
    directories_[number].first = first;
    directories_[number].entry_count = static_cast<uint32_t>(nodes_.size()) - first;
    directories_[number].subdirectory_count = subdirectory_count;
  }
}

IndexEntry ManifestSlice::entry(uint32_t slot) const {
  const Node node = nodes_[slot];
  const Manifest::Entry& known = list_.entry(node);
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
