#include "open/open_shards.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/error.h"
#include "io/source.h"
#include "record/ffrecord_shard.h"
#include "remote/remote_error.h"
#include "remote/remote_opener.h"
#include "tfrecord/framing.h"
#include "tfrecord/tfrecord_shard.h"

namespace ffrfs {
namespace {

constexpr std::string_view kPackSuffix = ".ffr";

bool is_tfrecord_name(std::string_view name) {
  return name.find(".tfrecord") != std::string_view::npos;
}

bool is_folder(const std::string& path) {
  if (remote::is_url(path)) return remote::shown_url(path).ends_with('/');
  std::error_code unknown;  // then opening it reports the error
  return std::filesystem::is_directory(path, unknown);
}

template <typename Add> void add_local(const std::string& folder, const Add& add) {
  try {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      add(entry.path().filename().string(), entry.path().string(), [&] {
        std::error_code unknown;  // a link to itself, say: then opening it reports the error
        return !entry.is_directory(unknown);
      });
    }
  } catch (const std::filesystem::filesystem_error& error) {
    throw StorageError(error.code().value(), folder, "cannot list");
  }
}

RecordFiles find_in_folder(const std::string& folder) {
  FolderFiles found = files_in(folder);
  if (found.tfrecords.empty() && found.packs.empty()) {
    const std::string advice = "; to pack it: ffrfs pack " + folder + " FILE.ffr";
    throw FormatError(folder, "holds no packs (*.ffr) or TFRecord files (*.tfrecord*)" +
                                  (remote::is_url(folder) ? "" : advice));
  }
  if (!found.tfrecords.empty() && !found.packs.empty()) {
    throw FormatError(folder, "holds both packs (*.ffr) and TFRecord files (*.tfrecord*); "
                              "name the files instead");
  }
  const bool is_tfrecord = found.packs.empty();
  return {.paths = std::move(is_tfrecord ? found.tfrecords : found.packs),
          .is_tfrecord = is_tfrecord,
          .has_folder = true};
}

}  // namespace

bool is_pack_name(std::string_view name) {
  return name.ends_with(kPackSuffix) && !name.starts_with('.') && !is_tfrecord_name(name);
}

FolderFiles files_in(const std::string& folder) {
  FolderFiles found;
  const auto add = [&found](const std::string& name, std::string path, const auto& is_file) {
    if (name.starts_with('.')) return;
    const bool is_index = name.ends_with(".idx") || name.ends_with(".tfindex");
    if (is_tfrecord_name(name) && !is_index && is_file()) {
      found.tfrecords.push_back(std::move(path));
    } else if (is_pack_name(name) && is_file()) {
      found.packs.push_back(std::move(path));
    }
  };
  if (remote::is_url(folder)) {
    for (std::string& url : remote::list_urls(folder)) {
      const std::string shown = remote::shown_url(url);
      const std::string name = shown.substr(shown.rfind('/') + 1);  // "": a directory
      add(name, std::move(url), [&] { return !name.empty(); });
    }
  } else {
    add_local(folder, add);
  }
  for (std::vector<std::string>* paths : {&found.tfrecords, &found.packs}) {
    if (remote::is_url(folder)) {
      std::ranges::sort(*paths, {}, remote::shown_url);  // their queries are no part of the order
    } else {
      std::ranges::sort(*paths);
    }
  }
  return found;
}

RecordFiles find_record_files(const std::vector<std::string>& paths, const OpenSource& open) {
  if (paths.empty()) throw FormatError("no file was named");
  if (paths.size() == 1) {
    const std::string& path = paths.front();
    if (is_folder(path)) return find_in_folder(path);
    return {.paths = {path}, .is_tfrecord = is_tfrecord(path, open)};
  }
  RecordFiles files;
  for (const std::string& path : paths) {
    if (!is_folder(path)) {
      files.paths.push_back(path);
      continue;
    }
    RecordFiles inside = find_in_folder(path);
    if (inside.is_tfrecord) {
      throw FormatError(path, "holds TFRecord files; only packs can be shown as one tree; "
                              "name it alone");
    }
    std::ranges::move(inside.paths, std::back_inserter(files.paths));
    files.has_folder = true;
  }
  return files;
}

bool is_tfrecord(const std::string& path, const OpenSource& open) {
  const std::string shown = remote::shown_url(path);
  if (is_tfrecord_name(std::string_view(shown).substr(shown.rfind('/') + 1))) return true;
  const auto file = open(path);
  std::array<std::byte, kFrameHeaderSize> begin;
  if (file->size() < begin.size()) return false;
  file->read_fully(0, begin);
  // The checksum of an FFRecord file may look like the magic of a gzip stream; then the file has a
  // plausible number of records, too.
  return is_frame_header(begin) || (is_gzip(begin) && !claimed_record_count(*file));
}

}  // namespace ffrfs
