#include "open/sidecar_writer.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "entries/index_writer.h"
#include "fetch/record_stream.h"
#include "io/crc.h"
#include "io/error.h"
#include "open/open_tree.h"
#include "record/chunk_checksums.h"
#include "record/ffrecord_shard.h"
#include "record/header_checksums.h"
#include "record/staged_file.h"
#include "tree/pickle_tree_entries.h"

namespace ffrfs {
namespace {

// Reads every record but the last, which is the pickle.
ChunkChecksums read_chunks(const ShardSet& shards, Counters& counters) {
  static_assert(RecordStream::kPieceSize == kIndexChunkSize);
  ChunkChecksums chunks;
  Fetcher fetcher(shards, counters);
  for (uint64_t record = 0; record + 1 < shards.count(); ++record) {
    const Extent extent = shards.extent(record);
    if (extent.size <= kIndexChunkSize) continue;
    chunks.add(record, extent.size);
    RecordStream stream(fetcher, extent);
    uint64_t chunk = 0;
    for (auto piece = stream.next(); !piece.empty(); piece = stream.next()) {
      chunks.at(record, chunk++) = crc32c(piece);
    }
  }
  return chunks;
}

}  // namespace

void write_sidecar(const std::string& pack, const std::string& target, bool chunks,
                   Counters& counters) {
  const ShardSet shards = open_ffrecord_shards({pack});
  const auto& shard = static_cast<const FfrecordShard&>(shards.shard(0));
  const Source& file = shard.file();
  const OpenedTree opened = open_tree(shards, nullptr, counters);
  const auto* tree = dynamic_cast<const PickleTree*>(opened.tree.get());
  if (tree == nullptr) {
    throw FormatError(pack, "is not a pack; there is nothing to index");
  }
  const std::vector<uint32_t> header = header_checksums(shard.checksums().first(shard.count() - 1),
                                                        shard.offsets().first(shard.count()));
  const ChunkChecksums chunk_checksums = chunks ? read_chunks(shards, counters) : ChunkChecksums();
  // Root may index packs in directories of other users, who could put a link to any file there.
  StagedFile staged(target, Links::kRefuse);
  uint64_t end = 0;
  write_index(PickleTreeEntries(*tree),
              {.record_count = shard.count(),
               .header_checksums = header,
               .chunks = chunk_checksums,
               .size = [&file](uint64_t) { return file.size(); },
               .mtime_ns = file.mtime_ns(),
               .header_crc = shard.header_crc()},
              [&](std::span<const std::byte> bytes) {
    staged.write(end, bytes);
    end += bytes.size();
  });
  staged.publish();
}

}  // namespace ffrfs
