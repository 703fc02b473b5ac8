#include "volume/sidecar_writer.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "io/crc.h"
#include "io/error.h"
#include "io/little_endian.h"
#include "record/chunk_checksums.h"
#include "record/ffrecord_shard.h"
#include "record/header_checksums.h"
#include "record/staged_file.h"
#include "tree/folder_tree_source.h"
#include "tree/index_writer.h"
#include "volume/open_tree.h"
#include "volume/record_stream.h"

namespace ffrfs {
namespace {

// Every record but the last, which is the pickle.
ChunkChecksums read_chunks(const ShardSet& shards, Counters& counters) {
  static_assert(RecordStream::kPieceSize == kIndexChunkSize);
  ChunkChecksums chunks;
  for (uint64_t record = 0; record + 1 < shards.count(); ++record) {
    const Extent extent = shards.extent(record);
    if (extent.size <= kIndexChunkSize) continue;
    chunks.add(record, extent.size);
    RecordStream stream(shards, extent, counters);
    uint64_t chunk = 0;
    for (auto piece = stream.next(); !piece.empty(); piece = stream.next()) {
      chunks.at(record, chunk++) = crc32c(piece);
    }
  }
  return chunks;
}

uint32_t read_header_crc(const SourceFile& file) {
  std::array<std::byte, sizeof(uint32_t)> stored;
  file.read_fully(0, stored);
  return load_le<uint32_t>(stored);
}

}  // namespace

void write_sidecar(const std::string& pack, const std::string& target, bool chunks,
                   Counters& counters) {
  const ShardSet shards = open_ffrecord_shards({pack});
  const auto& shard = static_cast<const FfrecordShard&>(shards.shard(0));
  const SourceFile& file = shard.file();
  const OpenedTree opened = open_tree(shards, nullptr, counters);
  const auto* tree = dynamic_cast<const FolderTree*>(opened.tree.get());
  if (tree == nullptr) {
    throw FormatError(pack + ": is no packed folder: there is nothing to index");
  }
  const std::vector<uint32_t> header =
      header_checksums(shard.checksums().first(shard.count() - 1),
                       shard.offsets().first(shard.count()));
  const ChunkChecksums chunk_checksums = chunks ? read_chunks(shards, counters) : ChunkChecksums();
  // Root mounts packs that lie in folders of others, who may put a link to any file there.
  StagedFile staged(target, Links::kRefuse);
  uint64_t end = 0;
  write_index(FolderTreeSource(*tree),
              {.record_count = shard.count(),
               .header_checksums = header,
               .chunks = chunk_checksums,
               .size = [&file](uint64_t) { return file.size(); },
               .mtime_ns = file.mtime_ns(),
               .header_crc = read_header_crc(file)},
              [&](std::span<const std::byte> bytes) {
                staged.write(end, bytes);
                end += bytes.size();
              });
  staged.publish();
}

}  // namespace ffrfs
