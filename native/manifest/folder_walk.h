// What is directly in one folder, a part at a time: names, and what the kernel tells of each.
//
// Names are in the order of the file system. Several threads ask the kernel, since what is
// not in memory takes as long as the disk, or the network, does.
// Memory: some hundred KB, whatever the number of names.
//
// Not here: what becomes of it (ffrfs/packing/sources/source.py), nor the folders below.

#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_descriptor.h"
#include "manifest/manifest.h"

namespace ffrfs {

class FolderWalk {
 public:
  struct Entry {
    std::string name;
    struct stat info {};  // of the name itself, also if it is a symbolic link
    bool is_known = false;  // the kernel has told
  };

  // Of an open folder, which stays the caller's and must stay open; `path` is for errors. All
  // throw StorageError.
  FolderWalk(int folder, std::string path);

  // The next names, at most some thousand; none: that were all. They hold until the next call.
  [[nodiscard]] const std::vector<Entry>& next();

 private:
  struct Closer {
    void operator()(DIR* stream) const { closedir(stream); }
  };

  void read_names();
  void ask_for(size_t first, size_t end);

  const int folder_;
  const std::string path_;
  std::unique_ptr<DIR, Closer> stream_;
  std::vector<Entry> entries_;
};

// Adds the regular files among them; returns the names of all else: those, too, that no entry can
// have, and those of which the kernel tells nothing.
[[nodiscard]] std::vector<std::string_view> add_regular_files(
    Manifest& list, uint32_t parent, const std::vector<FolderWalk::Entry>& found);

}  // namespace ffrfs
