#include "manifest/manifest_runs.h"

#include <algorithm>

#include "record/index_layout.h"

namespace ffrfs {
namespace {

// What a record, or a folder, costs in a pack besides its bytes and twice its name: 12 in
// the header, 32 to 56 in the index, and the pickle's own.
constexpr uint64_t kEntryCost = 80;
// What every pack has: the index begins at a multiple of 4096 and has its trailer.
constexpr uint64_t kPackCost = 8192;

uint64_t packed_size(const Manifest& list, uint32_t record) {
  const Manifest::Entry& file = list.file(list.file_of(record));
  uint64_t size = file.value + kEntryCost + 2 * file.name_size;
  if (file.value > kIndexChunkSize) {
    size += sizeof(ChunkedRecord) + record_chunk_count(file.value) * sizeof(uint32_t);
  }
  return size;
}

// What is in the pack that is filled.
class Pack {
 public:
  explicit Pack(const Manifest& list) : list_(list), shown_in_(list.folder_count()) {}

  // What a record takes, and the folders on its way that the pack does not show yet.
  uint64_t add(uint32_t record) {
    uint64_t size = packed_size(list_, record);
    uint32_t folder = list_.file(list_.file_of(record)).parent;
    for (; shown_in_[folder] != number_; folder = list_.folder(folder).parent) {
      shown_in_[folder] = number_;
      size += kEntryCost + 2 * list_.folder(folder).name_size;
    }
    return size;
  }

  void begin_next() { ++number_; }

 private:
  const Manifest& list_;
  uint32_t number_ = 0;             // from 1
  std::vector<uint32_t> shown_in_;  // of each folder, the last pack
};

}  // namespace

ManifestRuns split_by_count(const Manifest& list, uint32_t count) {
  const uint32_t record_count = list.record_count();
  uint64_t left_bytes = 0;
  for (uint32_t record = 0; record < record_count; ++record) {
    left_bytes += packed_size(list, record);
  }
  ManifestRuns runs;
  uint32_t record = 0;
  count = std::clamp(count, uint32_t{1}, std::max(record_count, uint32_t{1}));
  for (uint32_t left = count; left > 0; --left) {
    // Each takes its part of what is left, and one record for each that follows is left.
    const uint64_t wanted = left_bytes / left;
    const uint32_t first = record;
    uint64_t bytes = 0;
    while (record + (left - 1) < record_count) {
      const uint64_t size = packed_size(list, record);
      const bool is_nearer = bytes + size / 2 <= wanted;
      if (record > first && left > 1 && !is_nearer) break;
      bytes += size;
      ++record;
    }
    left_bytes -= bytes;
    runs.emplace_back(first, record - first);
  }
  return runs;
}

ManifestRuns split_by_size(const Manifest& list, uint64_t max_bytes) {
  ManifestRuns runs;
  Pack pack(list);
  uint64_t bytes = 0;
  for (uint32_t record = 0; record < list.record_count(); ++record) {
    uint64_t size = runs.empty() ? 0 : pack.add(record);
    if (runs.empty() || size > max_bytes || bytes > max_bytes - size) {
      runs.emplace_back(record, 0);
      pack.begin_next();
      bytes = kPackCost;
      size = pack.add(record);
    }
    ++runs.back().second;
    bytes += size;
  }
  if (runs.empty()) runs.emplace_back(0, 0);
  return runs;
}

}  // namespace ffrfs
