// Builds the parts of replies that describe an inode: its attributes, alone, with a name, or in a
// listing.
//
// The kernel may cache all of it, because the tree cannot change.

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
// Returns a negative entry: the name does not exist, and the kernel may cache that.
[[nodiscard]] fuse::EntryOut absent_entry();

// One reply to READDIRPLUS: the page of a listing from a position until the reply is full.
// Positions: 0 is ".", 1 is "..", the entries follow in the volume's order.
class ListingReply {
 public:
  ListingReply(uint32_t size_bytes, uint64_t begin);

  // Returns the position of the next entry.
  [[nodiscard]] uint64_t position() const { return position_; }
  // Returns false if there is no room for the entry.
  bool add(std::string_view name, const Attributes& attributes);

  // Adds as many entries from position() on as there is room for. `part` is the tree of `volume`
  // that has the directory.
  void add_entries(const Volume& volume, const Tree& part, Ino ino);

  [[nodiscard]] std::span<const std::byte> bytes() const { return std::span(bytes_).first(used_); }

 private:
  [[nodiscard]] size_t left() const { return bytes_.size() - used_; }

  std::vector<std::byte> bytes_;
  size_t used_ = 0;
  uint64_t position_;
};

}  // namespace ffrfs
