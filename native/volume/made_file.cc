#include "volume/made_file.h"

#include <exception>
#include <utility>

namespace ffrfs {

MadeFile::MadeFile(std::shared_ptr<const ExampleFolder> folder, Ino ino, const Extent& extent)
    : folder_(std::move(folder)),
      source_(folder_->source(ino)),
      // Of a pool that keeps nothing: the memory goes back at once.
      buffer_(BufferPool(0).acquire(static_cast<size_t>(extent.size))),
      record_(buffer_.first(static_cast<size_t>(extent.size))) {}

std::unique_ptr<const MadeFile> MadeFile::open(Volume& volume, const TreePtr& tree, Ino ino,
                                               bool check) {
  auto folder = std::dynamic_pointer_cast<const ExampleFolder>(tree);
  if (!folder || folder->source(ino).form == FileSource::Form::kSlice) return nullptr;
  const Extent extent = volume.shards().extent(ExampleTree::record_of(ino));
  std::unique_ptr<MadeFile> file(new MadeFile(std::move(folder), ino, extent));
  BatchItem item{.extent = extent, .target = file->record_};
  volume.fetcher().read({&item, 1}, check);
  if (item.error) std::rethrow_exception(item.error);
  return file;
}

void MadeFile::read(uint64_t offset, std::span<std::byte> to) const {
  const auto part = std::span<const std::byte>(record_).subspan(
      static_cast<size_t>(source_.begin), static_cast<size_t>(source_.size));
  folder_->render(source_, part, offset, to);
}

}  // namespace ffrfs
