#include "open/open_tree.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "example/example_tree.h"
#include "fetch/record_stream.h"
#include "io/error.h"
#include "pickle/pickle_index.h"
#include "record/index_layout.h"
#include "shard/record_checksum.h"
#include "tree/flat_tree.h"
#include "tree/mapped_tree.h"

namespace ffrfs {
namespace {

// The index record without its magic.
class IndexRecordBytes : public ByteSource {
 public:
  explicit IndexRecordBytes(RecordStream& stream) : stream_(stream) {}

  [[nodiscard]] std::span<const std::byte> next() override {
    auto piece = stream_.next();
    while (skip_ > 0 && !piece.empty()) {
      const size_t skipped = std::min(skip_, piece.size());
      skip_ -= skipped;
      piece = piece.subspan(skipped);
      if (piece.empty()) piece = stream_.next();
    }
    return piece;
  }

 private:
  RecordStream& stream_;
  size_t skip_ = kFolderMagic.size();
};

void read_through(const ShardSet& shards, const Extent& extent, Counters& counters) {
  Fetcher fetcher(shards, counters);
  RecordStream stream(fetcher, extent);
  while (!stream.next().empty()) {
  }
}

bool begins_with_magic(const ShardSet& shards, const Extent& extent) {
  if (extent.size < kFolderMagic.size()) return false;
  std::array<std::byte, kFolderMagic.size()> begin;
  shards.file_of(extent).read_fully(extent.offset, begin);
  return std::memcmp(begin.data(), kFolderMagic.data(), kFolderMagic.size()) == 0;
}

std::unique_ptr<const Tree> read_index(const ShardSet& shards, const Extent& extent,
                                       Counters& counters) {
  try {
    Fetcher fetcher(shards, counters);
    RecordStream stream(fetcher, extent);
    IndexRecordBytes source(stream);
    return read_pickle_index(source, shards.count(), shards.file_of(extent).path());
  } catch (const FormatError&) {
    // If the bytes are damaged, throws ChecksumError instead of the parser's error.
    read_through(shards, extent, counters);
    throw;
  }
}

}  // namespace

OpenedTree open_tree(const ShardSet& shards, const IndexMap* index, Counters& counters,
                     const ExampleOptions& examples) {
  if (index != nullptr) return {std::make_unique<MappedTree>(*index), TreeKind::kFolder};
  if (shards.count() == 0) {
    throw FormatError(shards.shard(0).file().path(), "holds no records: nothing to show");
  }
  const Extent last = shards.extent(shards.count() - 1);
  if (last.checksum == Checksum::kMaskedCrc32c) {
    return {std::make_unique<ExampleTree>(shards.count(), examples), TreeKind::kExamples};
  }
  if (begins_with_magic(shards, last)) {
    auto tree = with_second_try(shards.file_of(last), last.offset, last.size,
                                [&] { return read_index(shards, last, counters); });
    return {std::move(tree), TreeKind::kFolder};
  }
  // Too short for the magic: an empty or tiny record, or the rest of an index in a truncated file.
  // The checksum decides.
  if (last.size < kFolderMagic.size()) read_through(shards, last, counters);
  return {std::make_unique<FlatTree>(shards.count()), TreeKind::kRecords};
}

}  // namespace ffrfs
