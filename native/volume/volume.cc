#include "volume/volume.h"

#include <sys/stat.h>

#include <algorithm>

#include "io/error.h"
#include "volume/open_tree.h"

namespace ffrfs {

Volume::Volume(const std::string& path, const VolumeOptions& options)
    : options_(options),
      shards_({path}),
      counters_(options.counters_fd),
      request_times_(counters_.page()),
      batches_(shards_, counters_),
      reads_([this] {
        return std::make_unique<FileReads>(shards_, counters_, options_.cache_bytes,
                                           options_.check_data);
      }) {
  OpenedTree opened = open_tree(shards_, counters_);
  tree_ = std::move(opened.tree);
  is_folder_ = opened.is_folder;
}

uint64_t Volume::byte_count() const {
  uint64_t total = 0;
  for (size_t i = 0; i < shards_.shard_count(); ++i) {
    const auto offsets = shards_.shard(i).offsets();
    total += offsets.back() - offsets.front();
  }
  return total;
}

std::optional<Attributes> Volume::attributes(Ino ino) const {
  const std::optional<Inode> inode = tree_->inode(ino);
  if (!inode) return std::nullopt;
  Attributes attributes{.ino = ino,
                        .uid = options_.uid,
                        .gid = options_.gid,
                        .mtime_ns = shards_.shard(0).file().mtime_ns()};
  if (inode->is_directory) {
    attributes.mode = S_IFDIR | (0555 & ~options_.umask);
    // "." and the name in the parent, and ".." of each subdirectory.
    attributes.nlink = static_cast<uint32_t>(
        std::min<uint64_t>(2 + inode->subdirectory_count, UINT32_MAX));
  } else {
    attributes.mode = S_IFREG | (0444 & ~options_.umask);
    attributes.nlink = 1;
    attributes.size = shards_.extent(inode->record).size;
  }
  return attributes;
}

Extent Volume::extent(Ino ino) const {
  const std::optional<Inode> inode = tree_->inode(ino);
  if (!inode || inode->is_directory) {
    throw RangeError(shards_.shard(0).file().path() + ": inode " + std::to_string(ino) +
                     " is no file");
  }
  return shards_.extent(inode->record);
}

Ino Volume::resolve(std::string_view path) const {
  Ino ino = kRootIno;
  while (!path.empty() && ino != 0) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
    if (!part.empty() && part != ".") ino = tree_->lookup(ino, part);
  }
  return ino;
}

std::optional<Slice> Volume::read(Ino ino, uint64_t offset, size_t size, FileReads::Done done) {
  const Extent file = extent(ino);
  const uint64_t left = offset < file.size ? file.size - offset : 0;
  return reads_.get().read(file, offset, static_cast<size_t>(std::min<uint64_t>(size, left)),
                           std::move(done));
}

}  // namespace ffrfs
