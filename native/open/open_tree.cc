#include "open/open_tree.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>

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
    if (!std::exchange(is_first_, false)) return stream_.next();
    // The first piece is at least as long as the magic, which the record begins with.
    const auto piece = stream_.next().subspan(kFolderMagic.size());
    return piece.empty() ? stream_.next() : piece;
  }

 private:
  RecordStream& stream_;
  bool is_first_ = true;
};

void read_through(const ShardSet& shards, const Extent& extent, Counters& counters) {
  Fetcher fetcher(shards, counters);
  RecordStream stream(fetcher, extent);
  while (!stream.next().empty()) {
  }
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

bool is_index_record(const Source& file, const Extent& extent) {
  if (extent.size < kFolderMagic.size()) return false;
  std::array<std::byte, kFolderMagic.size()> begin;
  file.read_fully(extent.offset, begin);
  return std::memcmp(begin.data(), kFolderMagic.data(), kFolderMagic.size()) == 0;
}

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
  if (is_index_record(shards.file_of(last), last)) {
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
