#include "fuse/inode_reply.h"

namespace ffrfs {
namespace {

constexpr uint64_t kBlockSize = 512;  // what st_blocks counts in, whatever the file system
constexpr int64_t kNsPerS = 1'000'000'000;
// What an entry takes in a listing, but for its name and the filling up to 8 bytes.
constexpr size_t kDirentPlusSize = 152;
constexpr uint64_t kDotCount = 2;  // "." and ".."

// How many of them fit into a listing of that size.
size_t fitting_count(const std::vector<Dentry>& entries, size_t size) {
  size_t count = 0;
  for (const Dentry& entry : entries) {
    const size_t needed = (kDirentPlusSize + entry.name.size() + 7) / 8 * 8;
    if (needed > size) break;
    size -= needed;
    ++count;
  }
  return count;
}

}  // namespace

struct stat to_stat(const Attributes& attributes) {
  struct stat info {};
  info.st_ino = attributes.ino;
  info.st_mode = attributes.mode;
  info.st_nlink = attributes.nlink;
  info.st_uid = attributes.uid;
  info.st_gid = attributes.gid;
  info.st_size = static_cast<off_t>(attributes.size);
  info.st_blocks = static_cast<blkcnt_t>((attributes.size + kBlockSize - 1) / kBlockSize);
  int64_t seconds = attributes.mtime_ns / kNsPerS;
  int64_t nanoseconds = attributes.mtime_ns % kNsPerS;
  if (nanoseconds < 0) {  // before 1970
    nanoseconds += kNsPerS;
    --seconds;
  }
  info.st_mtim = {.tv_sec = seconds, .tv_nsec = nanoseconds};
  info.st_atim = info.st_ctim = info.st_mtim;
  return info;
}

fuse_entry_param to_entry(const Attributes& attributes) {
  fuse_entry_param entry{};
  entry.ino = attributes.ino;
  entry.attr = to_stat(attributes);
  entry.attr_timeout = entry.entry_timeout = kTimeoutS;
  return entry;
}

bool ListingReply::add(const std::string& name, const Attributes& attributes) {
  const fuse_entry_param entry = to_entry(attributes);
  const size_t needed = fuse_add_direntry_plus(request_, bytes_.data() + used_, left(),
                                               name.c_str(), &entry,
                                               static_cast<off_t>(position_ + 1));
  if (needed > left()) return false;
  used_ += needed;
  ++position_;
  return true;
}

void ListingReply::add_entries(const Volume& volume, const Tree& part, Ino ino) {
  auto entries = part.list(ino, position_ - kDotCount, left() / (kDirentPlusSize + 1));
  entries.resize(fitting_count(entries, left()));
  const auto attributes = volume.attributes(part, entries);
  for (size_t i = 0; i < entries.size(); ++i) add(entries[i].name, attributes[i]);
}

}  // namespace ffrfs
