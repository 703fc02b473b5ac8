// Trees as a model has them, and the mapped indexes that say the same: made here without
// the project's own writer, and with whatever is wrong with them that a test wants.

#pragma once

#include <sys/stat.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "index_file.h"
#include "io/local_file.h"
#include "record/index_map.h"
#include "scratch.h"
#include "tree/mapped_tree.h"
#include "tree/tree.h"

namespace ffrfs::test {

struct Model {
  InodeKind kind = InodeKind::kDirectory;
  uint64_t record = 0;  // of a file
  std::string target;   // of a link
  std::optional<uint16_t> mode = 0755;
  std::optional<int64_t> mtime_ns = 0;
  std::map<std::string, Model> entries;  // of a directory; std::map: in the order of bytes

  [[nodiscard]] bool is_directory() const { return kind == InodeKind::kDirectory; }
  [[nodiscard]] uint64_t subdirectory_count() const {
    uint64_t count = 0;
    for (const auto& [name, entry] : entries) count += entry.is_directory() ? 1 : 0;
    return count;
  }
  // Of a kind, in all of the tree, itself too.
  [[nodiscard]] uint64_t count(InodeKind of) const {
    uint64_t found = kind == of ? 1 : 0;
    for (const auto& [name, entry] : entries) found += entry.count(of);
    return found;
  }
};

inline Model file_model(uint64_t record) {
  return {.kind = InodeKind::kFile, .record = record, .target = {}, .mode = 0644, .entries = {}};
}

inline std::string random_name(std::mt19937_64& random) {
  static const std::string kLetters("ab\x01\x7f\x80\xff.", 7);
  std::string name;
  const size_t size = random() % 20 == 0 ? 255 : 1 + random() % 4;
  while (name.size() < size) name += kLetters[random() % kLetters.size()];
  return name == "." || name == ".." ? "dots" : name;
}

// `count` entries or a few fewer; files have the records from 0 on, and some one of those
// before them; one entry in ten is a link.
inline Model random_model(std::mt19937_64& random, size_t count, uint64_t& record_count) {
  Model root;
  std::vector<Model*> directories{&root};
  for (size_t made = 0; made < count; ++made) {
    Model* const parent = directories[random() % directories.size()];
    const auto [entry, is_new] = parent->entries.try_emplace(random_name(random));
    if (!is_new) continue;
    Model& model = entry->second;
    model.mode = static_cast<uint16_t>(random() % 01000);
    model.mtime_ns = static_cast<int64_t>(random());
    const uint64_t kind = random() % 10;
    if (kind < 3) {
      directories.push_back(&model);  // a map does not move what it holds
    } else if (kind == 3) {
      model.kind = InodeKind::kSymlink;
      model.target = std::string(1 + random() % (random() % 20 == 0 ? 4095 : 30), 't');
    } else {
      model.kind = InodeKind::kFile;
      const bool is_shared = record_count > 0 && random() % 10 == 0;
      model.record = is_shared ? random() % record_count : record_count++;
    }
  }
  return root;
}

// The sections of a pack of `record_count` records, and one for the index.
inline Sections index_sections(const Model& root, uint64_t record_count, uint64_t& link_count) {
  Sections sections;
  Bytes& inodes = section(sections, Section::kInodes);
  Bytes& directories = section(sections, Section::kDirectories);
  Bytes& names = section(sections, Section::kNames);
  Bytes& targets = section(sections, Section::kTargets);
  std::vector<uint32_t> files(record_count + 1, kNoFile);
  struct Placed {
    std::string name;
    const Model* model;
    uint32_t parent;
  };
  std::vector<Placed> placed{{"", &root, 0}};  // by slot
  uint32_t directory_count = 1;                // those that have a number
  link_count = 0;
  for (uint32_t slot = 0, number = 0; slot < placed.size(); ++slot) {
    const Placed of = placed[slot];
    const Model& model = *of.model;
    IndexInode inode{.name_offset = slot == 0 ? 0 : names.size(),
                     .value = 0,
                     .mtime_ns = model.mtime_ns.value_or(kUnknownMtime),
                     .parent = of.parent,
                     .mode = model.mode.value_or(0),
                     .name_size = static_cast<uint16_t>(of.name.size())};
    names += of.name;
    switch (model.kind) {
      case InodeKind::kDirectory: {
        inode.value = number++;
        inode.mode |= S_IFDIR;
        const auto subdirectories = static_cast<uint32_t>(model.subdirectory_count());
        append_le(directories,
                  IndexDirectory{.slot = slot,
                                 .first_child = static_cast<uint32_t>(placed.size()),
                                 .entry_count = static_cast<uint32_t>(model.entries.size()),
                                 .first_subdirectory = directory_count,
                                 .subdirectory_count = subdirectories,
                                 .zero = 0});
        directory_count += subdirectories;
        for (const auto& [name, entry] : model.entries) placed.push_back({name, &entry, slot});
        break;
      }
      case InodeKind::kFile:
        inode.value = model.record;
        inode.mode |= S_IFREG;
        if (files.at(model.record) == kNoFile) files[model.record] = slot;
        break;
      case InodeKind::kSymlink:
        inode.value = targets.size();
        inode.mode |= S_IFLNK;
        append_le(targets, static_cast<uint32_t>(model.target.size()));
        targets += model.target;
        ++link_count;
        break;
    }
    append_le(inodes, inode);
  }
  for (const uint32_t slot : files) append_le(section(sections, Section::kFiles), slot);
  return sections;
}

// A pack on disk and its index, opened.
struct IndexedFile {
  IndexedFile(const TemporaryFolder& folder, const std::string& name, const Sections& sections,
              uint64_t record_count, uint64_t link_count)
      : path(folder.write(name, pack_bytes(sections, record_count, link_count))), file(path) {
    const uint64_t last = ffrecord_header_size(record_count + 1);  // the others are empty
    index = IndexMap::in_pack({.file = file, .record_count = record_count + 1,
                               .last_offset = last});
  }

  static Bytes pack_bytes(const Sections& sections, uint64_t record_count, uint64_t link_count) {
    PackedIndex pack = indexed_pack(std::vector<Bytes>(record_count), sections);
    pack.trailer.link_count = link_count;
    seal(pack.trailer);
    put(pack.file, pack.file.size() - sizeof pack.trailer, pack.trailer);
    return pack.file;
  }

  std::string path;
  LocalFile file;
  std::unique_ptr<const IndexMap> index;
};

}  // namespace ffrfs::test
