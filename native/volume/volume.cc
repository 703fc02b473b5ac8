#include "volume/volume.h"

#include <sys/stat.h>

#include <algorithm>

#include "io/error.h"
#include "volume/open_shards.h"

namespace ffrfs {
namespace {

// Of the limit: what was read ahead and is held (see BlockReader).
constexpr size_t kPrefetchShare = 8;
// Of the limit: buffers of batches that wait to be used again.
constexpr size_t kFreeShare = 16;

}  // namespace

Volume::Volume(const std::string& path, const VolumeOptions& options)
    : options_(options),
      shards_(open_shards(path)),
      counters_(options.counters_fd),
      request_times_(counters_.page()),
      batches_(shards_, counters_, options_.cache_bytes / kFreeShare),
      reads_([this] {
        return std::make_unique<FileReads>(shards_, counters_, options_.cache_bytes,
                                           options_.check_data);
      }),
      examples_([this] {
        return std::make_unique<ExampleReads>(
            shards_, static_cast<const ExampleTree&>(*tree_), reads_.get(), counters_,
            ExampleOptions{options_.extensions}, options_.cache_bytes);
      }) {
  OpenedTree opened = open_tree(shards_, counters_);
  tree_ = std::move(opened.tree);
  kind_ = opened.kind;
}

uint64_t Volume::byte_count() const {
  uint64_t total = 0;
  for (size_t i = 0; i < shards_.shard_count(); ++i) total += shards_.shard(i).byte_count();
  return total;
}

bool Volume::metadata_verified() const {
  for (size_t i = 0; i < shards_.shard_count(); ++i) {
    if (!shards_.shard(i).metadata_verified()) return false;
  }
  return true;
}

TreePtr Volume::find_folder(Ino ino) {
  return examples_.get().folders().find(ExampleTree::record_of(ino));
}

TreePtr Volume::tree_at(About about, Ino ino, TreeDone done) {
  if (TreePtr part = tree_at(about, ino)) return part;
  return examples_.get().folders().get(ExampleTree::record_of(ino), std::move(done));
}

std::optional<Attributes> Volume::attributes(const Tree& part, Ino ino) const {
  std::optional<Inode> inode = part.inode(ino);
  if (!inode) inode = tree_->inode(ino);
  if (!inode) return std::nullopt;
  Attributes attributes{.ino = ino, .uid = options_.uid, .gid = options_.gid};
  size_t shard = 0;
  if (is_inside_record(ino)) shard = shards_.extent(ExampleTree::record_of(ino)).shard;
  attributes.mtime_ns = shards_.shard(shard).file().mtime_ns();
  if (inode->is_directory) {
    attributes.mode = S_IFDIR | (0555 & ~options_.umask);
    // "." and the name in the parent, and ".." of each subdirectory. 1: find(1) and others
    // who count on that are told not to; in a record's folder it takes the record to know.
    attributes.nlink = kind_ == TreeKind::kExamples
                           ? 1
                           : static_cast<uint32_t>(std::min<uint64_t>(
                                 2 + inode->subdirectory_count, UINT32_MAX));
  } else {
    attributes.mode = S_IFREG | (0444 & ~options_.umask);
    attributes.nlink = 1;
    attributes.size = inode->size ? *inode->size : shards_.extent(inode->record).size;
  }
  return attributes;
}

std::string Volume::path(Ino ino) {
  if (!is_inside_record(ino)) return tree_->path(ino);
  if (const TreePtr part = find_folder(ino)) return part->path(ino);
  return tree_->path(ExampleTree::folder_ino(ExampleTree::record_of(ino)));
}

bool Volume::failure_is_due(Ino ino) {
  return failures_.due(is_inside_record(ino)
                           ? ExampleTree::folder_ino(ExampleTree::record_of(ino))
                           : ino);
}

Extent Volume::extent(Ino ino) const {
  const std::optional<Inode> inode = tree_->inode(ino);
  if (!inode || inode->is_directory) {
    throw RangeError(shards_.shard(0).file().path() + ": inode " + std::to_string(ino) +
                     " is no file");
  }
  return shards_.extent(inode->record);
}

std::optional<Slice> Volume::read(Ino ino, uint64_t offset, size_t size, FileReads::Done done) {
  if (is_inside_record(ino)) {
    return examples_.get().read(ino, offset, size, std::move(done));
  }
  const Extent file = extent(ino);
  const uint64_t left = offset < file.size ? file.size - offset : 0;
  return reads_.get().read(file, offset, static_cast<size_t>(std::min<uint64_t>(size, left)),
                           std::move(done));
}

void Volume::start_prefetch(Push push) {
  if (options_.prefetch.window_records == 0) return;
  FileReads& reads = reads_.get();
  prefetcher_ = std::make_unique<Prefetcher>(
      shards_, *tree_, kind_ != TreeKind::kExamples, reads.blocks(), batches_, counters_,
      options_.prefetch, options_.cache_bytes / kPrefetchShare, options_.check_data,
      [this, push = std::move(push)](const Hint& hint, const BlockPtr& block) {
        return push_gate_.pass([&] { return this->push(push, hint, block); });
      });
  hint_clients_ = std::make_unique<HintClients>(
      *prefetcher_, [this](std::string_view text) { return hint(text); },
      counters_.prefetch_dropped);
  reads.blocks().set_observer([this](const Extent& extent, Found found) {
    prefetcher_->note_read(extent, found);
  });
}

bool Volume::stop_prefetch(std::chrono::milliseconds limit) {
  if (prefetcher_) prefetcher_->stop();
  return push_gate_.close(limit);
}

void Volume::take_hints(FileDescriptor client) {
  if (hint_clients_) hint_clients_->take(std::move(client));
}

bool Volume::push(const Push& push, const Hint& hint, const BlockPtr& block) {
  try {
    if (kind_ == TreeKind::kExamples) return examples_.get().push(hint, block, push);
  } catch (...) {  // no memory: then it is held
    return false;
  }
  return push(hint.ino, 0, block->bytes);
}

}  // namespace ffrfs
