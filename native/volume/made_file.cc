#include "volume/made_file.h"

#include <exception>
#include <optional>
#include <utility>

namespace ffrfs {

MadeFile::MadeFile(TreePtr tree, Ino ino, const Contents& contents, const Extent& extent)
    : tree_(std::move(tree)),
      ino_(ino),
      contents_(contents),
      // From a pool that keeps nothing, so that the memory is freed at once.
      buffer_(BufferPool(0).acquire(static_cast<size_t>(extent.size))),
      record_(buffer_.first(static_cast<size_t>(extent.size))) {}

std::unique_ptr<const MadeFile> MadeFile::open(Volume& volume, const TreePtr& tree, Ino ino,
                                               bool check) {
  const std::optional<Contents> contents = tree->contents(ino);
  if (!contents || !contents->rendered_size) return nullptr;
  const Extent extent = volume.shards().extent(contents->record);
  std::unique_ptr<MadeFile> file(new MadeFile(tree, ino, *contents, extent));
  BatchItem item{.extent = extent, .target = file->record_};
  volume.fetcher().read({&item, 1}, check);
  if (item.error) std::rethrow_exception(item.error);
  return file;
}

void MadeFile::read(uint64_t offset, std::span<std::byte> to) const {
  const auto part = std::span<const std::byte>(record_).subspan(
      static_cast<size_t>(contents_.begin), static_cast<size_t>(contents_.size.value()));
  tree_->render(ino_, part, offset, to);
}

}  // namespace ffrfs
