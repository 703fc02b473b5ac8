// A file that is rendered from a record (.npy, example.json), read in parts by callers that block.
// A mount holds the rendered file; here its record is held instead, which is a few times smaller,
// and every part takes a pass over it. So files of any size can be read.
//
// Thread-safe.
// Not here: how a mount renders files (subtree_reads.h).

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
  // Reads the record, and verifies it if `check`. `tree` is the part of the volume's tree that has
  // the file. Returns nullptr if the file is not a rendered one. Blocks. Throws ChecksumError,
  // StorageError, RangeError.
  [[nodiscard]] static std::unique_ptr<const MadeFile> open(Volume& volume, const TreePtr& tree,
                                                            Ino ino, bool check);

  [[nodiscard]] uint64_t size() const { return contents_.rendered_size.value(); }

  // Fills `to` with the file's bytes from `offset` on; they must exist. Throws FormatError if the
  // record is not the one that its directory was made from.
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
