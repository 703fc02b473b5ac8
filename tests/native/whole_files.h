// All files of a record's folder with their content: as a volume gives them, and from the record.

#pragma once

#include <map>

#include "example_folders.h"
#include "volume/blocking_volume.h"

namespace ffrfs::test {

inline Bytes read_whole(Volume& volume, Ino ino, size_t step = size_t{1} << 20) {
  BlockingVolume blocking(volume);
  Bytes content;
  while (true) {
    const Slice slice = blocking.read(ino, content.size(), step);
    if (slice.bytes.empty()) return content;
    content += text(slice.bytes);
  }
}

// Path below the record's folder → content.
inline std::map<Bytes, Bytes> files_of(const Bytes& record, size_t number,
                                       const ExampleOptions& options) {
  const auto made = ExampleFolder::make(view(record), {number, "x"}, options);
  std::map<Bytes, Bytes> files;
  for (Ino ino = ExampleTree::folder_ino(number); made->inode(ino); ++ino) {
    if (made->inode(ino)->is_directory()) continue;
    files[made->path(ino).substr(2)] = content(*made, record, ino);
  }
  return files;
}

}  // namespace ffrfs::test
