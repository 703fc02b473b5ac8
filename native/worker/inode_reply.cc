#include "worker/inode_reply.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

namespace ffrfs {
namespace {

constexpr uint64_t kTimeoutS = uint64_t{365} * 24 * 3600;
constexpr uint64_t kBlockSize = 512;  // the unit of st_blocks on any file system
constexpr int64_t kNsPerS = 1'000'000'000;
constexpr uint64_t kDotCount = 2;  // "." and ".."
constexpr size_t kListingSizeMax = 1 << 20;

// Returns how many bytes an entry takes in a listing.
size_t entry_size(std::string_view name) {
  return (sizeof(fuse::DirentPlus) + name.size() + 7) / 8 * 8;
}

// Returns how many of the entries fit into a listing of that size.
size_t fitting_count(const std::vector<Dentry>& entries, size_t size) {
  size_t count = 0;
  for (const Dentry& entry : entries) {
    const size_t needed = entry_size(entry.name);
    if (needed > size) break;
    size -= needed;
    ++count;
  }
  return count;
}

fuse::Attr to_attr(const Attributes& attributes) {
  int64_t seconds = attributes.mtime_ns / kNsPerS;
  int64_t nanoseconds = attributes.mtime_ns % kNsPerS;
  if (nanoseconds < 0) {  // before 1970
    nanoseconds += kNsPerS;
    --seconds;
  }
  const auto time = static_cast<uint64_t>(seconds);
  const auto fraction = static_cast<uint32_t>(nanoseconds);
  return {.ino = attributes.ino,
          .size = attributes.size,
          .blocks = (attributes.size + kBlockSize - 1) / kBlockSize,
          .atime = time,
          .mtime = time,
          .ctime = time,
          .atimensec = fraction,
          .mtimensec = fraction,
          .ctimensec = fraction,
          .mode = attributes.mode,
          .nlink = attributes.nlink,
          .uid = attributes.uid,
          .gid = attributes.gid,
          .rdev = 0,
          .blksize = 0,
          .flags = 0};
}

}  // namespace

fuse::EntryOut to_entry(const Attributes& attributes) {
  return {.nodeid = attributes.ino,
          .generation = 0,
          .entry_valid = kTimeoutS,
          .attr_valid = kTimeoutS,
          .entry_valid_nsec = 0,
          .attr_valid_nsec = 0,
          .attr = to_attr(attributes)};
}

fuse::AttrOut to_attr_out(const Attributes& attributes) {
  return {.attr_valid = kTimeoutS, .attr_valid_nsec = 0, .dummy = 0, .attr = to_attr(attributes)};
}

fuse::EntryOut absent_entry() {
  fuse::EntryOut entry{};
  entry.entry_valid = kTimeoutS;
  return entry;
}

ListingReply::ListingReply(uint32_t size_bytes, uint64_t begin)
    : bytes_(std::min<size_t>(size_bytes, kListingSizeMax)), position_(begin) {}

bool ListingReply::add(std::string_view name, const Attributes& attributes) {
  const size_t needed = entry_size(name);
  if (needed > left()) return false;
  const fuse::DirentPlus head{.entry = to_entry(attributes),
                              .dirent = {.ino = attributes.ino,
                                         .off = position_ + 1,
                                         .namelen = static_cast<uint32_t>(name.size()),
                                         .type = (attributes.mode & S_IFMT) >> 12}};
  std::byte* const place = bytes_.data() + used_;
  std::memcpy(place, &head, sizeof head);
  std::memcpy(place + sizeof head, name.data(), name.size());
  used_ += needed;  // the padding is zeros already
  ++position_;
  return true;
}

void ListingReply::add_entries(const Volume& volume, const Tree& part, Ino ino) {
  auto entries = part.list(ino, position_ - kDotCount, left() / (sizeof(fuse::DirentPlus) + 1));
  entries.resize(fitting_count(entries, left()));
  const auto attributes = volume.attributes(part, entries);
  for (size_t i = 0; i < entries.size(); ++i) add(entries[i].name, attributes[i]);
}

}  // namespace ffrfs
