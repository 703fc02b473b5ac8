// A file that is made of a TFRecord's record (.npy, example.json), in parts, for callers that
// wait. A mount holds such a file while it is read; here its record is held instead, which is
// a few times smaller, and every part takes a pass over it. So files of any size can be read.
//
// Any thread. Not here: what a mount does (example_reads.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "example/example_folder.h"
#include "io/buffer.h"
#include "volume/volume.h"

namespace ffrfs {

class MadeFile {
 public:
  // Reads the record, and verifies it if `check`. `tree` is the part of the volume's tree that
  // knows the file. nullptr: the file is not made, but a part of its record, or the whole.
  // Blocks. Throws ChecksumError, StorageError, RangeError.
  [[nodiscard]] static std::unique_ptr<const MadeFile> open(Volume& volume, const TreePtr& tree,
                                                            Ino ino, bool check);

  [[nodiscard]] uint64_t size() const { return source_.file_size; }

  // Its bytes from `offset` on, as many as `to` holds; they must be there. Throws FormatError
  // if the record is not what it was when its folder was made.
  void read(uint64_t offset, std::span<std::byte> to) const;

 private:
  MadeFile(std::shared_ptr<const ExampleFolder> folder, Ino ino, const Extent& extent);

  const std::shared_ptr<const ExampleFolder> folder_;
  const FileSource& source_;
  const Buffer buffer_;
  const std::span<std::byte> record_;
};

}  // namespace ffrfs
