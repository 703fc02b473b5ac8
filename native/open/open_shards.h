// From the paths that somebody names to files of records.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "remote/remote_opener.h"

namespace ffrfs {

// What lies behind some paths: the files, each folder's in byte order of their names.
struct RecordFiles {
  std::vector<std::string> paths;
  bool is_tfrecord = false;  // one data set of TFRecord files; else of FFRecord files
  bool has_folder = false;   // some were found in a folder
};

// A TFRecord file; a folder of such files; an FFRecord file; or any number of FFRecord files
// and folders of them (*.ffr). What a file is, its content shows, or a name with ".tfrecord"
// in it, whose errors then speak of TFRecord. Of several it is not looked at: they are
// FFRecord files. Throws StorageError (of one that cannot be opened, if it is the only one),
// FormatError (for a folder of neither kind, or of both, and for TFRecord files among
// several).
[[nodiscard]] RecordFiles find_record_files(const std::vector<std::string>& paths,
                                            const OpenSource& open = remote::open_source);

// Whether it is a TFRecord file. Throws StorageError.
[[nodiscard]] bool is_tfrecord(const std::string& path,
                               const OpenSource& open = remote::open_source);

// The one rule for which files of a directory are packs (NAME.ffr) and which are TFRecord files
// (.tfrecord in the name): neither hidden files nor directories are. In byte order of the names.
struct FolderFiles {
  std::vector<std::string> packs;
  std::vector<std::string> tfrecords;  // without their indexes (.idx, .tfindex)
};

// By its name alone.
[[nodiscard]] bool is_pack_name(std::string_view name);

// Throws StorageError.
[[nodiscard]] FolderFiles files_in(const std::string& folder);

}  // namespace ffrfs
