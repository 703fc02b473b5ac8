// Finds the files of records behind the paths that a user names.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "remote/remote_opener.h"

namespace ffrfs {

// The files behind some paths, those of a directory in byte order of their names.
struct RecordFiles {
  std::vector<std::string> paths;
  bool is_tfrecord = false;  // one data set of TFRecord files; else FFRecord files
  bool has_folder = false;   // some files were found in a directory
};

// Accepts a TFRecord file; a directory of such files; an FFRecord file; or any number of FFRecord
// files and directories of them (*.ffr). A file's kind is decided by its content, or by ".tfrecord"
// in its name, so that errors then speak of TFRecord. Several files are not examined: they are
// FFRecord files. Throws StorageError (if the only file cannot be opened), FormatError (for a
// directory of neither kind, or of both, and for TFRecord files among several).
[[nodiscard]] RecordFiles find_record_files(const std::vector<std::string>& paths,
                                            const OpenSource& open = remote::open_source);

// Returns whether it is a TFRecord file. Throws StorageError.
[[nodiscard]] bool is_tfrecord(const std::string& path,
                               const OpenSource& open = remote::open_source);

// The only rule for which files of a directory are packs (NAME.ffr) and which TFRecord files
// (.tfrecord in the name); hidden files and directories are neither. Sorted by the bytes of their
// names.
struct FolderFiles {
  std::vector<std::string> packs;
  std::vector<std::string> tfrecords;  // without their indexes (.idx, .tfindex)
};

// Judges by the name alone.
[[nodiscard]] bool is_pack_name(std::string_view name);

// Throws StorageError.
[[nodiscard]] FolderFiles files_in(const std::string& folder);

}  // namespace ffrfs
