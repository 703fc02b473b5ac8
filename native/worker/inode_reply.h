// What an answer to the kernel says of an inode: its attributes, alone, with a name, or in a
// listing.
//
// The kernel may keep all of it: the tree cannot change.

#pragma once

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "volume/volume.h"

namespace ffrfs {

constexpr double kTimeoutS = 365.0 * 24 * 3600;

[[nodiscard]] struct stat to_stat(const Attributes& attributes);
[[nodiscard]] fuse_entry_param to_entry(const Attributes& attributes);

// One reply to READDIRPLUS: a page of a listing, from a position to where it is full.
// Positions: 0 is ".", 1 is "..", the entries follow in the volume's order.
class ListingReply {
 public:
  ListingReply(fuse_req_t request, size_t size_bytes, uint64_t begin)
      : request_(request), bytes_(size_bytes), position_(begin) {}

  // Of the next to be added.
  [[nodiscard]] uint64_t position() const { return position_; }
  // False: there is no room for it.
  bool add(const std::string& name, const Attributes& attributes);

  // Adds the entries from position() on, as many as there is room for: `part` of `volume`
  // has the folder.
  void add_entries(const Volume& volume, const Tree& part, Ino ino);

  void send() { fuse_reply_buf(request_, bytes_.data(), used_); }

 private:
  [[nodiscard]] size_t left() const { return bytes_.size() - used_; }

  const fuse_req_t request_;
  std::vector<char> bytes_;
  size_t used_ = 0;
  uint64_t position_;
};

}  // namespace ffrfs
