// What an answer to the kernel says of an inode: its attributes, alone, with a name, or in a
// listing.
//
// The kernel may keep all of it: the tree cannot change.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fuse/protocol.h"
#include "volume/volume.h"

namespace ffrfs {

[[nodiscard]] fuse::AttrOut to_attr_out(const Attributes& attributes);
[[nodiscard]] fuse::EntryOut to_entry(const Attributes& attributes);
// There is no such name, and the kernel remembers that.
[[nodiscard]] fuse::EntryOut absent_entry();

// One reply to READDIRPLUS: a page of a listing, from a position to where it is full.
// Positions: 0 is ".", 1 is "..", the entries follow in the volume's order.
class ListingReply {
 public:
  ListingReply(uint32_t size_bytes, uint64_t begin);

  // Of the next to be added.
  [[nodiscard]] uint64_t position() const { return position_; }
  // False: there is no room for it.
  bool add(std::string_view name, const Attributes& attributes);

  // Adds the entries from position() on, as many as there is room for: `part` of `volume`
  // has the folder.
  void add_entries(const Volume& volume, const Tree& part, Ino ino);

  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::span(bytes_).first(used_);
  }

 private:
  [[nodiscard]] size_t left() const { return bytes_.size() - used_; }

  std::vector<std::byte> bytes_;
  size_t used_ = 0;
  uint64_t position_;
};

}  // namespace ffrfs
