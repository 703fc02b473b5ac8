// Lists one folder, a part at a time: names, and the result of stat(2) for each.
//
// Names are in the order of the file system. Several threads call stat(2), because a name that is
// not cached takes as long as the disk or the network does. Memory: some hundred KB for any number
// of names.
//
// Not here: adding the entries to a list (ffrfs/packing/sources/source.py), and the folders below.

#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "entries/entry_list.h"
#include "io/file_descriptor.h"

namespace ffrfs {

class FolderWalk {
 public:
  struct Entry {
    std::string name;
    struct stat info{};  // of the name itself, even if it is a symbolic link
    bool is_known = false;  // stat(2) succeeded
  };

  // Lists an open folder, which the caller must keep open; `path` is for errors. All functions
  // throw StorageError.
  FolderWalk(int folder, std::string path);

  // Returns the next names, at most some thousand; none at the end. Valid until the next call.
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

// Adds the regular files of `found`. Returns all other names, including names that no entry may
// have, and names for which stat(2) has failed.
[[nodiscard]] std::vector<std::string_view> add_regular_files(
    EntryList& list, uint32_t parent, const std::vector<FolderWalk::Entry>& found);

}  // namespace ffrfs
