// A file that is rendered of a record (.npy, example.json), in parts, for callers that
// wait. A mount holds such a file while it is read; here its record is held instead, which is
// a few times smaller, and every part takes a pass over it. So files of any size can be read.
//
// Any thread. Not here: what a mount does (subtree_reads.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "io/buffer.h"
#include "volume/volume.h"

namespace ffrfs {

class MadeFile {
 public:
  // Reads the record, and verifies it if `check`. `tree` is the part of the volume's tree that
  // knows the file. nullptr: it is no file that is rendered.
  // Blocks. Throws ChecksumError, StorageError, RangeError.
  [[nodiscard]] static std::unique_ptr<const MadeFile> open(Volume& volume, const TreePtr& tree,
                                                            Ino ino, bool check);

  [[nodiscard]] uint64_t size() const { return contents_.rendered_size.value(); }

  // Its bytes from `offset` on, as many as `to` holds; they must be there. Throws FormatError
  // if the record is not what it was when its folder was made.
  void read(uint64_t offset, std::span<std::byte> to) const;

 private:
  MadeFile(TreePtr tree, Ino ino, const Contents& contents, const Extent& extent);

  const TreePtr tree_;
  const Ino ino_;
  const Contents contents_;
  const Buffer buffer_;
  const std::span<std::byte> record_;
};

}  // namespace ffrfs
