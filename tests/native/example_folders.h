// Walks over the folders of records, and helpers to make such records.

#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "example/example_folder.h"
#include "example/example_tree.h"
#include "examples.h"
#include "io/error.h"
#include "tree/name.h"

namespace ffrfs::test {

using FolderPtr = std::unique_ptr<const ExampleFolder>;

inline constexpr uint64_t kNumber = 12;  // the number of every record here

inline FolderPtr make(const Bytes& record, bool extensions = true) {
  return ExampleFolder::make(view(record), {kNumber, "000000012"}, {.extensions = extensions});
}

// Return the whole content of a rendered file.
inline Bytes rendered(const Tree& folder, Ino ino, const Bytes& part) {
  Bytes file(folder.contents(ino).value().rendered_size.value(), '?');
  folder.render(ino, view(part), 0, std::as_writable_bytes(std::span(file)));
  return file;
}

// Return a file's content as the volume makes it: from the file's part of the record alone.
inline Bytes content(const Tree& folder, const Bytes& record, Ino ino) {
  const Contents contents = folder.contents(ino).value();
  REQUIRE(contents.begin <= record.size());
  REQUIRE(contents.size.value() <= record.size() - contents.begin);
  const Bytes part = record.substr(contents.begin, *contents.size);  // in memory of its own
  if (!contents.rendered_size) return part;
  const Bytes file = rendered(folder, ino, part);
  for (const size_t begin : {size_t{0}, size_t{1}, file.size() / 3, file.size() - 1}) {
    if (begin > file.size()) continue;
    Bytes piece(std::min<size_t>(file.size() - begin, file.size() / 3 + 1), '?');
    folder.render(ino, view(part), begin, std::as_writable_bytes(std::span(piece)));
    REQUIRE(piece == file.substr(begin, piece.size()));
  }
  return file;
}

// Return every path below the record's folder (folders end with '/') and its content. On the way
// this checks what must hold of any tree.
inline std::map<Bytes, Bytes> walk(const ExampleFolder& folder, const Bytes& record) {
  std::map<Bytes, Bytes> found;
  std::vector<Ino> directories{ExampleTree::folder_ino(kNumber)};
  Ino next = directories[0] + 1;  // inodes are numbered breadth-first, without a gap
  uint64_t file_count = 0;
  for (size_t d = 0; d < directories.size(); ++d) {
    const Ino directory = directories[d];
    const auto entries = folder.list(directory, 0, UINT64_MAX);
    REQUIRE(folder.inode(directory)->entry_count == entries.size());
    uint64_t subdirectory_count = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      const Dentry& entry = entries[i];
      REQUIRE(entry.ino == next++);
      REQUIRE(name_fault(entry.name) == nullptr);
      REQUIRE(entry.name.size() <= kNameSizeLimit);
      if (i > 0) REQUIRE(entries[i - 1].name < entry.name);
      REQUIRE(folder.lookup(directory, entry.name) == entry.ino);
      REQUIRE(folder.name(entry.ino) == entry.name);
      const auto inode = folder.inode(entry.ino);
      REQUIRE(inode);
      REQUIRE(inode->parent == directory);
      const Bytes path = folder.path(entry.ino).substr(sizeof "000000012");
      if (inode->is_directory()) {
        ++subdirectory_count;
        directories.push_back(entry.ino);
        found.emplace(path + "/", "");
        REQUIRE_FALSE(folder.contents(entry.ino));
      } else {
        ++file_count;
        REQUIRE(inode->record == kNumber);
        const auto file = found.emplace(path, content(folder, record, entry.ino)).first;
        REQUIRE(inode->size == file->second.size());
        REQUIRE(folder.list(entry.ino, 0, 1).empty());
        REQUIRE(folder.lookup(entry.ino, "0") == 0);
      }
    }
    REQUIRE(folder.inode(directory)->subdirectory_count == subdirectory_count);
  }
  REQUIRE_FALSE(folder.inode(next));
  REQUIRE(folder.file_count() == file_count);
  REQUIRE(folder.directory_count() == directories.size());
  REQUIRE(found.at("record.bin") == record);
  return found;
}

inline std::map<Bytes, Bytes> walk(const Bytes& record, bool extensions = true) {
  return walk(*make(record, extensions), record);
}

inline std::vector<Bytes> paths(const Bytes& record, bool extensions = true) {
  std::vector<Bytes> all;
  for (const auto& [path, file] : walk(record, extensions)) all.push_back(path);
  return all;
}

// Names and their messages, in this order; a name may occur several times.
using NamedMessages = std::vector<std::pair<Bytes, Bytes>>;

inline Bytes entries(const NamedMessages& messages) {
  Bytes all;
  for (const auto& [name, message] : messages) all += entry(name, message);
  return all;
}

inline Bytes example_of(const NamedMessages& features) { return example(entries(features)); }

inline Bytes feature_list(const std::vector<Bytes>& steps) {
  Bytes list;
  for (const Bytes& step : steps) list += field(1, step);
  return list;
}

inline Bytes times(size_t count, const Bytes& part) {
  Bytes all;
  all.reserve(count * part.size());
  for (; count > 0; --count) all += part;
  return all;
}

inline Bytes sequence_example(const NamedMessages& context, const NamedMessages& lists) {
  return field(1, entries(context)) + field(2, entries(lists));
}

}  // namespace ffrfs::test
