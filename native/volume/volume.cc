#include "volume/volume.h"

#include <sys/stat.h>

#include <algorithm>
#include <exception>

#include "io/error.h"
#include "record/ffrecord_shard.h"

namespace ffrfs {

Volume::Volume(const std::vector<std::string>& paths, const VolumeOptions& options)
    : options_(options),
      counters_(options.counters_fd),
      packs_(open_packs(paths, options.packs, counters_)),
      subtrees_(tree().subtrees()),
      request_times_(counters_.page()),
      reads_([this] {
        return std::make_unique<FileReads>(shards(), counters_, options_.cache_bytes,
                                           options_.check_data);
      }),
      subtree_reads_([this] {
        return std::make_unique<SubtreeReads>(shards(), *subtrees_, reads_.get(), counters_);
      }),
      coverage_(options.counters_fd, shards().count(), counters_.page()) {
  leave_out_indexes();
}

// The last record of a pack is its index, and no reader's.
void Volume::leave_out_indexes() {
  for (size_t i = 0; i < shards().shard_count(); ++i) {
    const uint64_t end = i + 1 < shards().shard_count() ? shards().start(i + 1) : shards().count();
    const auto* const packed = dynamic_cast<const FfrecordShard*>(&shards().shard(i));
    if (packed == nullptr || end == shards().start(i)) continue;
    // A mapped index is not asked: if it is damaged there, the mount must come up all the same.
    if (packed->index() != nullptr || tree().file_of(end - 1) == 0) coverage_.leave_out(end - 1);
  }
}

std::string Volume::identity(size_t shard) const {
  const Source& file = shards().shard(shard).file();
  const Source::Facts& facts = file.facts();
  // Inodes are counted in another way if there is no index.
  const auto* const packed = dynamic_cast<const FfrecordShard*>(&shards().shard(shard));
  const bool is_indexed = packed != nullptr && packed->index() != nullptr;
  std::string text = file.path() + '\n' + file.identity();
  for (const uint64_t number : {facts.device, facts.inode, facts.size,
                                static_cast<uint64_t>(facts.mtime_ns), uint64_t{is_indexed}}) {
    text += ' ' + std::to_string(number);
  }
  return text;
}

TreePtr Volume::load_tree(Need need, Ino ino, TreeDone done) {
  if (TreePtr part = find_tree(need, ino)) return part;
  return subtree_reads_.get().trees().get(subtree_for(need, ino).value(), std::move(done));
}

size_t Volume::shard_of(Ino ino) const {
  if (const auto record = subtree_of(ino)) return shards().extent(*record).shard;
  return tree().shard_of(ino);
}

std::optional<Attributes> Volume::attributes(const Tree& part, Ino ino) const {
  std::optional<Inode> inode = part.inode(ino);
  if (!inode) inode = tree().inode(ino);
  if (!inode) return std::nullopt;
  note_known(ino, *inode);
  const bool needs_record = has_size_of_record(*inode);
  return to_attributes(ino, *inode, needs_record ? shards().extent(inode->record).size : 0);
}

std::vector<Attributes> Volume::attributes(const Tree& part,
                                           std::span<const Dentry> entries) const {
  std::vector<Ino> inos(entries.size());
  std::ranges::transform(entries, inos.begin(), &Dentry::ino);
  const std::vector<Inode> inodes = part.inodes(inos);
  std::vector<uint64_t> records;
  records.reserve(inodes.size());
  for (size_t i = 0; i < inodes.size(); ++i) {
    note_known(inos[i], inodes[i]);
    if (has_size_of_record(inodes[i])) records.push_back(inodes[i].record);
  }
  const std::vector<uint64_t> sizes = shards().sizes(records);
  std::vector<Attributes> found;
  found.reserve(inodes.size());
  auto size = sizes.begin();
  for (size_t i = 0; i < inodes.size(); ++i) {
    found.push_back(to_attributes(inos[i], inodes[i], has_size_of_record(inodes[i]) ? *size++ : 0));
  }
  return found;
}

Attributes Volume::to_attributes(Ino ino, const Inode& inode, uint64_t size) const {
  Attributes attributes{.ino = ino, .nlink = 1, .uid = options_.uid, .gid = options_.gid};
  attributes.mtime_ns =
      inode.mtime_ns ? *inode.mtime_ns : shards().shard(shard_of(ino)).file().mtime_ns();
  switch (inode.kind) {
    case InodeKind::kDirectory:
      attributes.mode = S_IFDIR | permissions(inode, 0755);
      // A directory has a link as ".", one in its parent, and ".." in each subdirectory. 1 tells
      // find(1) and others not to count on that; inside records the count would take reading them,
      // and in a union with conflicts a comparison of all entries.
      if (!has_subtrees() && !inode.may_hide_some) {
        attributes.nlink =
            static_cast<uint32_t>(std::min<uint64_t>(2 + inode.subdirectory_count, UINT32_MAX));
      }
      break;
    case InodeKind::kSymlink:
      attributes.mode = S_IFLNK | 0777;
      attributes.size = inode.size.value_or(0);
      break;
    case InodeKind::kFile:
      attributes.mode = S_IFREG | permissions(inode, 0644);
      attributes.size = inode.size.value_or(size);
      break;
  }
  return attributes;
}

// With write permission, although every write is EROFS, so that a copy of the tree can be deleted.
uint32_t Volume::permissions(const Inode& inode, uint32_t unknown) const {
  return (inode.mode ? *inode.mode : unknown) & ~options_.umask;
}

void Volume::note_known(Ino ino, const Inode& inode) const {
  if (!prefetcher_ || !inode.is_file()) return;
  // The files in a record's directory become known one by one, but are pushed together.
  prefetcher_->around().note_known(subtree_of(ino).value_or(inode.record));
}

std::string Volume::path(Ino ino) {
  try {
    const auto record = subtree_of(ino);
    if (!record) return tree().path(ino);
    const Ino top = subtrees_->top(*record);
    const TreePtr part = subtree_reads_.get().trees().find(*record);
    if (!part) return tree().path(top);
    // The part's paths begin with its own name; tree() knows the path above it.
    return tree().path(top) + part->path(ino).substr(part->name(top).size());
  } catch (const std::exception&) {
    return "inode " + std::to_string(ino);
  }
}

std::string Volume::describe_slow(RequestKind kind, Ino ino, uint64_t elapsed_ns) {
  const std::string name = path(ino);
  std::string line = "slow ";
  line.append(kRequestKindNames[static_cast<size_t>(kind)]).append(": ");
  line += std::to_string(elapsed_ns / 1'000'000) + " ms for " + (name.empty() ? "/" : name);
  try {
    const size_t shard = shard_of(ino);
    if (shard < shards().shard_count()) line += ", from " + shards().shard(shard).file().path();
  } catch (const std::exception&) {  // the index is damaged there
  }
  return line;
}

std::optional<Ino> Volume::note_failure(Ino ino) {
  const auto record = subtree_of(ino);
  const Ino counted = record ? subtrees_->top(*record) : ino;
  return failures_.note(counted) ? std::optional(counted) : std::nullopt;
}

Extent Volume::extent(Ino ino) const {
  const std::optional<Contents> contents = tree().contents(ino);
  if (!contents) {
    throw RangeError(shards().shard(0).file().path() + ": inode " + std::to_string(ino) +
                     " is no file");
  }
  return shards().extent(contents->record);
}

std::optional<uint32_t> Volume::stored_crc32(const Contents& contents) const {
  if (contents.size) return std::nullopt;  // a part of a record has none
  const Extent extent = shards().extent(contents.record);
  return extent.checksum == Checksum::kCrc32 ? std::optional(extent.crc32) : std::nullopt;
}

FileReads::AtOnce Volume::read_now(Ino ino, uint64_t offset, size_t size,
                                   std::span<std::byte> target) {
  if (offset != 0 || subtree_of(ino)) return {};
  const Extent file = extent(ino);
  coverage_.note_request(shards().start(file.shard) + file.record);
  if (size < file.size) return {};
  return reads_.get().read_now(file, target);
}

std::optional<Slice> Volume::read(Ino ino, uint64_t offset, size_t size, FileReads::Done done,
                                  FileReads::Shape shape) {
  if (const auto record = subtree_of(ino)) {
    coverage_.note_request(*record);
    return subtree_reads_.get().read(ino, offset, size, std::move(done));
  }
  const Extent file = extent(ino);
  if (offset == 0) coverage_.note_request(shards().start(file.shard) + file.record);
  const uint64_t left = offset < file.size ? file.size - offset : 0;
  return reads_.get().read(file, offset, static_cast<size_t>(std::min<uint64_t>(size, left)),
                           std::move(done), shape);
}

void Volume::limit_cache(size_t limit_bytes) {
  reads_.get().limit_cache(limit_bytes);
  if (prefetcher_) prefetcher_->follow_limit();
  release_free_memory();
}

void Volume::limit_pushed(uint64_t limit_bytes) {
  if (prefetcher_) prefetcher_->around().set_budget(limit_bytes);
}

void Volume::start_prefetch(PushPages push) {
  if (options_.prefetch.window_records == 0) return;
  FileReads& reads = reads_.get();
  prefetcher_ = std::make_unique<Prefetcher>(
      tree(), !has_subtrees(), reads.units(), options_.prefetch, options_.check_data,
      [this, push = std::move(push)](const Hint& hint, std::span<const std::byte> record) {
    const bool is_pushed = push_gate_.pass([&] { return this->push(push, hint, record); });
    if (is_pushed) coverage_.note_push(hint.record);
    return is_pushed;
  });
  hint_server_ = std::make_unique<HintServer>(*prefetcher_, [this](std::string_view text) {
    const std::optional<Hint> found = hint(text);
    if (found) coverage_.note_hint(found->record);
    return found;
  }, counters_);
  reads.units().set_observer(
      [this](const Extent& extent, Found found) { prefetcher_->note_read(extent, found); });
  reads.units().set_timer([this](size_t bytes, DemandReader::Clock::duration waited) {
    prefetcher_->around().note_stored(bytes, waited);
  });
}

std::optional<Hint> Volume::hint(std::string_view text) const {
  try {
    return find_hint(tree(), shards().count(), text);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

bool Volume::stop_prefetch(std::chrono::milliseconds limit) {
  if (prefetcher_) prefetcher_->stop();
  return push_gate_.close(limit);
}

void Volume::take_hints(FileDescriptor client) {
  if (hint_server_) hint_server_->take(std::move(client));
}

bool Volume::push(const PushPages& push, const Hint& hint, std::span<const std::byte> record) {
  try {
    if (has_subtrees()) return subtree_reads_.get().push(hint, record, push);
  } catch (...) {  // out of memory: the record stays held
    return false;
  }
  return push(hint.ino, 0, record);
}

}  // namespace ffrfs
